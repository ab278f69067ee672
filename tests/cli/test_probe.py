"""`asyncq probe`: the exit code for supervisors, without an import of asyncq."""

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from asyncq.cli import main
from asyncq.domain.http_address import HttpAddress
from asyncq.engine.probes.server import Answer, HttpServer, text_answer
from tests.support.cli import CHECKOUT, environment
from tests.support.web import free_ports

Output = pytest.CaptureFixture[str]
# What Python has loaded before, and the program itself.
MODULES = """
import sys
before = set(sys.modules)
import asyncq_command
sys.argv = ["asyncq", "probe", sys.argv[1]]
code = asyncq_command.main()
heavy = {"asyncio", "argparse", "http", "email", "logging", "ssl", "urllib.parse", "msgspec", "asyncpg", "asyncq"}
print(code, sorted(heavy & set(sys.modules) - before), len(set(sys.modules) - before) < 40)
"""


@contextmanager
def serving(answer: Answer) -> Iterator[str]:
    """A worker's page with this answer; yields its address."""
    server = HttpServer(HttpAddress("127.0.0.1", 0), {"/healthz": lambda _: answer})
    server.timeout = 20
    threading.Thread(target=server.handle_request).start()
    try:
        yield f"http://{server.address}/healthz"
    finally:
        server.close()


def probe(*words: str) -> "subprocess.CompletedProcess[str]":
    """Run the program."""
    program = Path(sys.executable).with_name("asyncq")
    return subprocess.run([program, "probe", *words], env=environment(), capture_output=True, text=True, timeout=60)


def test_a_worker_that_is_well_is_0() -> None:
    """The answer is printed: docker shows it."""
    with serving(text_answer(200, "ok")) as url:
        done = probe(url)

    assert (0, f"{url}: ok\n", "") == (done.returncode, done.stdout, done.stderr)


def test_a_worker_that_is_ill_is_1_with_its_words() -> None:
    """They name the task that blocks it."""
    with serving(text_answer(503, "blocked by job 7 (render)")) as url:
        done = probe(url)

    assert (1, "", f"{url}: blocked by job 7 (render)\n") == (done.returncode, done.stdout, done.stderr)


def test_one_that_is_ill_of_several_is_1() -> None:
    """Each worker of a group has a page of its own."""
    with serving(text_answer(200, "ok")) as well, serving(text_answer(503, "ill")) as ill:
        done = probe(well, ill)

    assert (1, f"{well}: ok\n", f"{ill}: ill\n") == (done.returncode, done.stdout, done.stderr)


def test_nobody_is_1() -> None:
    """The worker has not begun, or has ended."""
    done = probe(f"http://127.0.0.1:{free_ports(1)}/healthz")

    assert (1, True) == (done.returncode, "ConnectionRefusedError" in done.stderr)


def test_one_that_is_no_worker_is_1() -> None:
    """Something else has the port."""
    with socket.create_server(("127.0.0.1", 0)) as other:

        def hang_up() -> None:
            other.accept()[0].close()

        threading.Thread(target=hang_up).start()
        done = probe(f"http://127.0.0.1:{other.getsockname()[1]}/healthz")

    assert 1 == done.returncode


@pytest.mark.parametrize("url", ["127.0.0.1:8081", "https://127.0.0.1:8081/healthz", "http://localhost/healthz", ""])
def test_a_url_that_is_none_is_1_and_shows_one(url: str) -> None:
    """A supervisor knows 0 and 1."""
    done = probe(url)

    assert (1, True) == (done.returncode, "expected http://HOST:PORT/PAGE" in done.stderr)


def test_it_imports_little() -> None:
    """It is started every few seconds, and an import of asyncq takes longer than all of it."""
    with serving(text_answer(200, "ok")) as url:
        done = subprocess.run([sys.executable, "-c", MODULES, url], cwd=CHECKOUT, capture_output=True, text=True)

    assert f"{url}: ok\n0 [] True\n" == done.stdout, done.stderr


def test_it_is_a_command_like_others(capsys: Output) -> None:
    """`python -m asyncq probe`, and its help."""
    with serving(text_answer(200, "ok")) as url:
        code = main(["probe", url])
    with pytest.raises(SystemExit):
        main(["probe", "--help"])
    out = capsys.readouterr().out

    assert (0, True, True) == (code, out.startswith(f"{url}: ok\n"), "asyncq probe http://127.0.0.1:8081/readyz" in out)
