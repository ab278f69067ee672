"""The demo: its figures are exact, and it leaves nothing behind, however it ends."""

from __future__ import annotations

import ast
import gc
import importlib.util
import io
import json
import os
import random
import re
import secrets
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import asyncpg
import pytest
from anyio.to_thread import run_sync

from asyncq import Client, Worker
from examples.demo import command
from examples.demo.files import Function, count
from examples.demo.place import place
from examples.demo.screen import Screen
from examples.demo.tables import tables
from examples.demo.tasks import TASKS, count_file
from tests.support.cli import environment
from tests.support.disk import roomy_folder
from tests.support.waiting import wait_until

MARK = "ASYNCQ_TEST_DEMO"
END_S = 15.0
LOOK_S = 0.03
INTERRUPTIONS = 10  # each line of LINES, with a second Ctrl-C and without
AT_ONCE = 4
FIRST = 400  # of about 1,700 files
LINES = ("asyncq demo:", "server ", "schema ", "workers ", "jobs ")

Start = Callable[..., "Demo"]


class Demo:
    """A demo in a terminal of its own: Ctrl-C reaches its process group.

    Attributes:
        process: Its process.
        home: The folder for the files of the demo and its server.
    """

    def __init__(self, home: Path, log: Path, *words: str, before: Sequence[str] = (), **more: str) -> None:
        self.home = home
        self._mark = secrets.token_hex(8)
        self._log = log
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                [*before, sys.executable, "-c", PROGRAM, *words],
                cwd=home,
                env=environment(**{MARK: self._mark, "TMPDIR": str(home), **more}),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def said(self) -> str:
        """All output so far."""
        return self._log.read_text()

    async def says(self, words: str) -> None:
        """Wait for a text in the output."""
        await self._until(lambda: words in self.said or self.process.poll() is not None, END_S)

        assert words in self.said

    async def end(self) -> int:
        """Wait for its end; returns the exit code."""
        await self._until(lambda: self.process.poll() is not None, 3 * END_S)
        return self.process.returncode

    async def _until(self, predicate: Callable[[], bool], limit_s: float) -> None:
        with anyio.fail_after(limit_s):
            while not predicate():
                await anyio.sleep(LOOK_S)

    @property
    def schema(self) -> str:
        """The schema that it has made for itself."""
        return re.findall(r"asyncq_demo_\w+", self.said)[0]

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        os.killpg(self.process.pid, signal.SIGINT)

    def left(self) -> list[str]:
        """List what remains: files, sockets and folders by their paths, processes by their command lines."""
        files = [str(path) for path in self.home.iterdir()]
        return files + [words for pid in Path("/proc").glob("[0-9]*") if (words := self._is_mine(pid))]

    def _is_mine(self, process: Path) -> str | None:
        """The command line of a process that has our mark in its environment, or a place in our folder."""
        try:
            words = (process / "cmdline").read_bytes().decode(errors="replace").replace("\0", " ")
            is_marked = f"{MARK}={self._mark}".encode() in (process / "environ").read_bytes()
            is_here = (process / "cwd").readlink().is_relative_to(self.home)
        except OSError:  # it has just ended, or belongs to another user
            return None
        return words if is_marked or is_here else None


# Tests in the background ignore SIGINT or, with nohup, SIGHUP; an interactive shell does not.
PROGRAM = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
from examples.demo.command import main
sys.exit(main())
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a demo; each in a new folder, in which root's server account can work too."""
    demos: list[Demo] = []

    def start_one(*words: str, **more: Any) -> Demo:
        home = Path(tempfile.mkdtemp(prefix="aq-", dir=roomy_folder()))
        home.chmod(0o711)
        demos.append(Demo(home, tmp_path / f"log{len(demos)}", *words, **more))
        return demos[-1]

    yield start_one
    for started in demos:
        started.process.kill()
    for started in demos:
        started.process.wait(END_S)
        shutil.rmtree(started.home, ignore_errors=True)


def recount(files: Sequence[str]) -> dict[str, Any]:
    """Count files of the standard library by the demo's rules, in independent code."""
    folder = Path(sysconfig.get_path("stdlib"))
    totals = {"files": 0, "lines": 0, "words": 0, "imports": 0}
    problems: dict[str, str] = {}
    functions: list[tuple[int, str, int, str]] = []
    warnings.simplefilter("ignore")  # those about the syntax of the files; pytest restores the filters
    for name in files:
        data = (folder / name).read_bytes()
        totals["files"] += 1
        totals["lines"] += len(re.findall(rb"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z", data))
        totals["words"] += len(re.findall(rb"[^ \t\n\r\v\f]+", data))
        try:
            importlib.util.decode_source(data)
        except (SyntaxError, UnicodeDecodeError):
            problems[name] = "does not decode"
            continue
        try:
            totals["imports"] += visit(ast.parse(data), name, (), functions)
        except (SyntaxError, ValueError):
            problems[name] = "does not parse"
    longest = [
        {"lines": -negative, "name": called, "file": name, "line": line}
        for negative, name, line, called in sorted(functions)[:5]
    ]
    return {**totals, "problems": problems, "longest": longest}


def visit(node: ast.AST, file: str, around: tuple[str, ...], functions: list[tuple[int, str, int, str]]) -> int:
    """Note the functions below a node, ready to be sorted, and return how many imports are there."""
    imports = 0
    for value in vars(node).values():
        for child in value if isinstance(value, list) else ():
            if isinstance(child, ast.Import | ast.ImportFrom):
                imports += 1
            elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                path = (*around, child.name)
                if not isinstance(child, ast.ClassDef):
                    functions.append((child.lineno - child.end_lineno - 1, file, child.lineno, ".".join(path)))
                imports += visit(child, file, path, functions)
            elif isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
                imports += visit(child, file, around, functions)
    return imports


async def exists(dsn: str, schema: str) -> bool:
    """Whether a server has a schema."""
    connection = await asyncpg.connect(dsn)
    try:
        return await connection.fetchval("select exists (select from pg_namespace where nspname = $1)", schema)
    finally:
        await connection.close(timeout=5)


@pytest.mark.parametrize("limit", [FIRST, pytest.param(10**6, marks=pytest.mark.slow, id="all")])
async def test_the_figures_of_the_standard_library_are_right(start: Start, limit: int) -> None:
    """Each file is counted exactly once although jobs are repeated: other code computes the same totals."""
    files = python_files()[:limit]
    demo = start("--json", "--limit", str(limit), before=["sh", "-c", 'exec "$0" "$@" 2>/dev/null'])
    gc.disable()  # which would go through millions of syntax nodes again and again
    try:
        expected = await run_sync(recount, files)
    finally:
        gc.enable()
    code = await demo.end()

    report = json.loads(demo.said)
    packages = {Path(file).parent for file in files}
    assert (0, expected, []) == (code, {name: report[name] for name in expected}, demo.left())
    assert (len(packages), 0) == (report["tally"]["jobs"], report["tally"]["overlaps"])
    assert (3, True) == (len(report["retry_attempts_after_s"]), report["future_late_s"] >= 0)
    assert report["files"] + len(packages) + 3 + 1 == report["jobs"]
    assert report["files"] == sum(report["workers"])


def python_files() -> list[str]:
    """The files that can be counted, sorted, found by a program that is not ours."""
    folder = sysconfig.get_path("stdlib")
    leave_out = ["-name", "site-packages", "-prune", "-o", "-name", "dist-packages", "-prune", "-o"]
    command = ["find", folder, *leave_out, "-name", "*.py", "-printf", "%P\\n"]
    return sorted(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines())


async def test_ctrl_c_at_any_moment_leaves_nothing_and_ends_with_130(start: Start) -> None:
    """The demo is interrupted at ten moments, half the time with a second Ctrl-C."""
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    moments = random.Random(seed)
    slots = anyio.CapacityLimiter(AT_ONCE)
    ends: list[tuple[str, int, list[str]]] = []

    async def interrupt(line: str, delay_s: float, again_s: float | None) -> None:
        async with slots:
            demo = start("--limit", "100")
            await demo.says(line)
            await anyio.sleep(delay_s)
            demo.interrupt()
            if again_s is not None:
                await anyio.sleep(again_s)
                if demo.process.poll() is None:
                    demo.interrupt()
            code = await demo.end()
            ends.append((f"{line} + {delay_s:.3f} s, {again_s}:\n{demo.said}", code, demo.left()))

    async with anyio.create_task_group() as group:
        for number in range(INTERRUPTIONS):
            again_s = moments.uniform(0, 0.2) if number % 2 else None
            group.start_soon(interrupt, LINES[number % len(LINES)], moments.uniform(0, 0.9), again_s)

    assert INTERRUPTIONS == len(ends)
    assert [] == [end for end in ends if end[1:] != (130, []) or "Traceback" in end[0]], f"seed {seed}"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
async def test_sigterm_and_a_closed_terminal_work_like_ctrl_c(start: Start, number: signal.Signals) -> None:
    """A stopped demo or a closed terminal window must not leave a server running."""
    demo = start("--limit", "100")
    await demo.says("jobs ")

    demo.process.send_signal(number)

    assert (128 + number, []) == (await demo.end(), demo.left())


async def test_a_killed_demo_leaves_nothing_after_a_short_while(start: Start) -> None:
    """SIGKILL cannot be handled. The workers and the server's reaper notice that their parent is gone."""
    demo = start("--limit", "100")
    await demo.says("tallies")

    demo.process.kill()
    await demo.end()

    async def nothing_is_left() -> bool:
        await anyio.sleep(LOOK_S)
        return not demo.left()

    await wait_until(nothing_is_left, description="the end of all that is left")

    assert [] == demo.left()


async def test_a_killed_demo_leaves_no_schema_on_a_given_server(start: Start, dsn: str) -> None:
    """Such a server has no reaper, so the orphaned workers drop the schema."""
    demo = start("--limit", "100", "--dsn", dsn)
    await demo.says("tallies")
    was_there = await exists(dsn, demo.schema)

    demo.process.kill()
    await demo.end()

    async def nothing_is_left() -> bool:
        await anyio.sleep(LOOK_S)
        return not demo.left() and not await exists(dsn, demo.schema)

    assert was_there
    await wait_until(nothing_is_left, description="the end of the workers and of the schema")


async def test_a_given_server_is_used_and_left_unchanged(start: Start, dsn: str) -> None:
    """A demo on a server with data in it must not touch them, nor leave its own there."""
    demo = start("--limit", "8", ASYNCQ_TEST_DATABASE_URL=dsn)
    await demo.says("jobs ")
    was_there = await exists(dsn, demo.schema)

    code = await demo.end()

    assert (0, True, False) == (code, was_there, await exists(dsn, demo.schema))
    assert [] == demo.left()
    assert "the given server" in demo.said


async def test_ctrl_c_on_a_given_server_drops_the_schema(start: Start, dsn: str) -> None:
    """The schema is not removed with that server."""
    demo = start("--limit", "100", "--dsn", dsn)
    await demo.says("jobs ")

    demo.interrupt()

    assert (130, []) == (await demo.end(), demo.left())
    assert not await exists(dsn, demo.schema)


async def test_database_url_is_never_used(start: Start) -> None:
    """It may lead to production; a demo has no business there."""
    demo = start("--limit", "8", DATABASE_URL="postgresql://app@127.0.0.1:1/production", PGHOST="127.0.0.1", PGPORT="1")

    code = await demo.end()

    assert (0, []) == (code, demo.left()), demo.said


async def test_without_postgresql_one_sentence_explains_it(start: Start) -> None:
    """Users without PostgreSQL need to know how to install it, and nothing else."""
    demo = start("--limit", "8", ASYNCQ_PG_BIN="/nonexistent")

    code = await demo.end()

    assert (3, []) == (code, demo.left())
    assert demo.said.splitlines()[-1].startswith("asyncq: ASYNCQ_PG_BIN is '/nonexistent', where no working")


def test_an_empty_dsn_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """A variable that is not set must not start an unintended server."""
    code = command.main(["--dsn", ""])

    assert (2, True) == (code, "--dsn is empty" in capsys.readouterr().err)


async def test_a_reader_that_closes_the_pipe_ends_it_without_a_trace(start: Start) -> None:
    """`python -m examples.demo | head` is no reason for a traceback, or for a server that stays."""
    demo = start("--limit", "8", before=["sh", "-c", '"$0" "$@" | head -n 4'])

    await demo.end()

    assert ["schema", []] == [demo.said.splitlines()[-1].split()[0], demo.left()]


async def test_a_job_that_runs_twice_is_counted_once(dsn: str) -> None:
    """A worker that dies between the write and the settlement makes its job run again."""
    async with place(dsn) as here:
        await Client(here.dsn, schema=here.schema).migrate()
        async with (
            tables(here, ["abc.py", "ast.py", "re/__init__.py"]) as own,
            Client(here.dsn, schema=here.schema) as client,
        ):
            await own.make()
            await client.add_jobs([count_file.job(file) for file in ("abc.py", "abc.py", "re/__init__.py")])
            await Worker(here.dsn, TASKS, schema=here.schema).run_once()
            left = await own.rows("select name, files_left from packages order by name")
            tallied = await own.rows("select package, files from tallies")

    assert [("(top level)", 1), ("re", 0)] == [(row["name"], row["files_left"]) for row in left]
    assert [("re", 1)] == [(row["package"], row["files"]) for row in tallied]


def test_the_next_step_is_a_command_that_can_be_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    """After `make demo` the command is not on the PATH, and other folders of programs may lack it."""
    monkeypatch.setenv("PATH", "")
    words = command._command().split()
    done = subprocess.run([*words, "worker", "--help"], capture_output=True, text=True)

    assert (0, True) == (done.returncode, "usage: asyncq worker" in done.stdout)


def test_of_two_files_one_is_parsed_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads that parse at once may fail with a `SystemError` on Python 3.11.7, and a job with them."""
    (tmp_path / "file.py").write_text("import a\n")
    parse, inside, most, both = ast.parse, [0], [0], threading.Event()

    def noted(source: bytes) -> ast.Module:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        if inside[0] == 2:
            both.set()
        both.wait(0.2)  # for the other thread, which must not come
        inside[0] -= 1
        return parse(source)

    with monkeypatch.context() as patched, ThreadPoolExecutor(2) as threads:
        patched.setattr(ast, "parse", noted)
        counted = list(threads.map(count, [tmp_path / "file.py"] * 2))

    assert [(1, None), (1, None)] == [(one.imports, one.problem) for one in counted]
    assert [1] == most


def test_the_rules_of_counting(tmp_path: Path) -> None:
    """Decorators are no part of a function; inner functions and methods count; ties are ordered by line."""
    source = (
        "import a, b\r\nfrom c import d\n\n@e\ndef f():\n    import g\n\n    async def h():\n        pass\n"
        "class I:\n    if j:\n        def k(self): return (lambda: 1)\n    else:\n        def l(self): pass\n# m"
    )
    (tmp_path / "file.py").write_bytes(source.encode())

    found = count(tmp_path / "file.py")

    assert (15, 31, 3, None) == (found.lines, found.words, found.imports, found.problem)
    assert [(5, "f", 5), (8, "f.h", 2), (12, "I.k", 1), (14, "I.l", 1)] == [
        (function.line, function.name, function.lines) for function in found.functions
    ]
    assert isinstance(found.functions[0], Function)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"x = '\xff'\n", "does not decode"),
        (b"# coding: nonsense\n", "does not decode"),
        (b"def f(:\n", "does not parse"),
        (b"x = 1\0\n", "does not parse"),
        (b"", None),
    ],
)
def test_a_file_that_cannot_be_understood_has_a_problem(tmp_path: Path, data: bytes, problem: str | None) -> None:
    """The standard library has such files, as tests of the compiler; they are no failures of the job."""
    (tmp_path / "file.py").write_bytes(data)

    assert problem == count(tmp_path / "file.py").problem


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def drawn(stream: io.StringIO) -> str:
    """Return the output of a screen that shows half of the work."""
    screen = Screen(stream)
    screen.show(1, 2, "half")
    screen.clear()
    return stream.getvalue()


def test_a_terminal_shows_a_progress_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is redrawn in place, and removed at the end."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")

    assert f"\r\x1b[K{'█' * 10}{'░' * 10} half\r\x1b[K" == drawn(Terminal())


def test_a_file_and_no_color_get_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log must be readable, and so must a terminal for which NO_COLOR is set."""
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")

    assert [" 50 %  half\n"] * 2 == [drawn(Terminal()), drawn(io.StringIO())]
