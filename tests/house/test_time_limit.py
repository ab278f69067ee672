"""A test that hangs fails in time, its fixtures are torn down, and the tests after it run."""

import subprocess
import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest

CHECKOUT = Path(__file__).parents[2]
CONFTEST = """
import asyncio, os, signal, threading
from pathlib import Path
import pytest
from tests.support import time_limit
from tests.support.time_limit import pytest_runtest_teardown, pytest_timeout_set_timer

time_limit.TEARDOWN_S, time_limit.AGAIN_S = 100.0, 0.5

def let_the_time_be_over():
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGALRM)).start()

def note(line):
    with Path("notes").open("a") as file:
        print(line, file=file)

@pytest.fixture(scope="session")
def anyio_backend():
    return "asyncio"

@pytest.fixture(scope="session", autouse=True)
async def shared():
    yield
    note("shared: torn down")

@pytest.fixture
async def stage(request):
    yield
    note(f"{request.node.name}: torn down")

@pytest.fixture
async def stuck(stage):
    yield
    let_the_time_be_over()
    await asyncio.Event().wait()
"""
TESTS = """
import asyncio, contextlib, signal
from conftest import let_the_time_be_over, note

async def test_that_waits(stage):
    let_the_time_be_over()
    try:
        await asyncio.Event().wait()
    finally:
        note("test_that_waits: unwound")

async def test_whose_callback_swallows_the_alarm(stage):
    asyncio.get_running_loop().call_soon(signal.raise_signal, signal.SIGALRM)
    await asyncio.Event().wait()

async def test_whose_fixture_waits(stuck):
    pass

async def test_that_fails_before_its_fixture_waits(stuck):
    raise ValueError

async def test_that_refuses_to_end(stage):
    let_the_time_be_over()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.Event().wait()
    await asyncio.Event().wait()

async def test_after_them(stage):
    pass
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which these tests ran in a process of their own."""
    made = tmp_path_factory.mktemp("hanging")
    (made / "conftest.py").write_text(CONFTEST)
    (made / "test_hanging.py").write_text(TESTS)
    words = ("-q", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir=.", "--anyio-mode=auto", "--timeout=100")
    command = [sys.executable, "-c", "import pytest, sys; sys.exit(pytest.main())", *words, "--junit-xml=report", "."]
    subprocess.run(command, cwd=made, env={"PYTHONPATH": str(CHECKOUT)}, capture_output=True, check=False, timeout=240)
    return made


def messages(folder: Path) -> dict[str, list[str]]:
    """The messages of failures and errors by tests."""
    cases = ElementTree.parse(folder / "report").iter("testcase")
    found: dict[str, list[str]] = {}
    for case in cases:
        found.setdefault(case.attrib["name"], []).extend(each.attrib["message"] for each in case)
    return found


def test_a_test_that_hangs_fails_with_the_place_where_it_waits(folder: Path) -> None:
    """The stack of the event loop does not show it."""
    (message,) = messages(folder)["test_that_waits"]

    assert message.startswith("Failed: test_hanging.py::test_that_waits took over 100 s")
    assert " in test_that_waits\n" in message


def test_a_teardown_that_hangs_fails_although_the_test_itself_has_failed(folder: Path) -> None:
    """A test that failed had no time limit any more."""
    found = messages(folder)
    (of_good,), (failed, of_failed) = (
        found[name] for name in ("test_whose_fixture_waits", "test_that_fails_before_its_fixture_waits")
    )

    assert failed.startswith("ValueError")
    for message in (of_good, of_failed):
        assert "the teardown of test_hanging.py::test_" in message
        assert " took over 100 s" in message
        assert " in stuck\n" in message


def test_the_fixtures_of_a_test_that_hangs_are_torn_down_and_the_next_tests_run(folder: Path) -> None:
    """All of them are in one task, and waited for its coroutine for ever."""
    found = messages(folder)
    notes = (folder / "notes").read_text().splitlines()

    assert Counter(f"{name}: torn down" for name in [*found, "shared"]) <= Counter(notes)
    assert (6, []) == (len(found), found["test_after_them"])


def test_a_cancelled_test_ends_before_its_fixtures(folder: Path) -> None:
    """It may need them, for example to stop a worker."""
    notes = [line for line in (folder / "notes").read_text().splitlines() if line.startswith("test_that_waits")]

    assert ["test_that_waits: unwound", "test_that_waits: torn down"] == notes


def test_an_alarm_that_a_callback_swallows_ends_the_test(folder: Path) -> None:
    """The event loop only logs exceptions of callbacks."""
    (message,) = messages(folder)["test_whose_callback_swallows_the_alarm"]

    assert message.startswith("asyncio.exceptions.CancelledError")
