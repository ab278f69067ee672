"""The tasks that a word on the command line means."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from asyncq import InvalidCrontab, Task, TaskError, Worker
from asyncq.loading import crontab_beside, load, load_crontab
from tests.support.cli import write

ONE = "from asyncq import task\n\n@task\nasync def {}(ctx): ...\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty current folder; modules imported from it are unloaded afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def names(found: object) -> list[str]:
    """The tasks' names, in order."""
    assert isinstance(found, list | tuple)
    return [item.name for item in found]


def refusal(what: str) -> str:
    """The error message for a word that cannot be loaded."""
    with pytest.raises(TaskError) as caught:
        load(what)
    return str(caught.value)


def test_a_file_with_one_task_is_called_as_its_path_says(here: Path) -> None:
    """As in graphile-worker, tasks/a/b is the task a/b, regardless of the function's name."""
    write(here, {"tasks/hello.py": ONE.format("run"), "tasks/mail/eu/send.py": ONE.format("send")})

    assert ["hello", "mail/eu/send"] == names(load("tasks"))


def test_in_a_file_with_several_tasks_each_keeps_its_own_name(here: Path) -> None:
    """The path cannot name two, and `client.add_job(send, ...)` in a web process knows the function's name only."""
    write(here, {"tasks/mail.py": ONE.format("send") + "\n@task\nasync def receive(ctx): ...\n"})

    assert ["send", "receive"] == names(load("tasks"))


QUEUE = "\nfrom asyncq import Queue\n\nreports = Queue('reports', concurrency=4)\n"


@pytest.mark.parametrize("what", ["tasks", "tasks.hello", "tasks.hello:listed"])
def test_the_limits_of_queues_are_loaded_with_the_tasks(here: Path, what: str) -> None:
    """They are declared by the worker that runs the tasks."""
    write(here, {"tasks/hello.py": ONE.format("hello") + QUEUE + "listed = [hello, reports]\n"})

    assert ["hello", "reports"] == names(load(what))


def test_a_name_that_was_given_stays(here: Path) -> None:
    """An explicit name= is deliberate, and other programs may rely on it."""
    write(here, {"tasks/mail/send.py": ONE.format("send").replace("@task", "@task(name='mail.send')")})

    assert ["mail.send"] == names(load("tasks"))


def test_a_renamed_task_keeps_its_defaults(here: Path) -> None:
    """The path changes only the name."""
    write(here, {"tasks/a/b.py": ONE.format("f").replace("@task", "@task(queue='q', priority=3, max_attempts=2)")})

    (task,) = load("tasks")

    spec = task.spec("{}")
    assert ("a/b", "q", 3, 2) == (spec.task, spec.queue, spec.priority, spec.max_attempts)


def test_a_task_may_return_a_type_that_only_type_checkers_import(here: Path) -> None:
    """A worker needs the types of the parameters alone."""
    imports = "from __future__ import annotations\nfrom typing import TYPE_CHECKING\n"
    checked = "if TYPE_CHECKING:\n    from nowhere import Report\n"
    write(here, {"tasks/a.py": imports + checked + ONE.format("a").replace("(ctx)", "(day: str) -> Report")})

    assert ["a"] == names(load("tasks"))


def test_files_that_begin_with_an_underscore_or_a_dot_are_no_task_files(here: Path) -> None:
    """Helpers, __init__.py and editors' temporary files may be in the folder of tasks."""
    helpers = {"tasks/_shared.py": "", "tasks/__init__.py": "", "tasks/.#a.py": "1/0", "tasks/_x/y.py": "1/0"}
    write(here, {"tasks/a.py": ONE.format("a"), "tasks/.git/b.py": "1/0", "tasks/notes.txt": "", **helpers})

    assert ["a"] == names(load("tasks"))


def test_task_files_can_import_each_other_and_are_loaded_once(here: Path) -> None:
    """A second copy of a module would have its own globals, and its own task of the same name."""
    write(
        here,
        {
            "tasks/a.py": "from tasks.b import b\nfrom tasks._shared import loaded\n" + ONE.format("a"),
            "tasks/b.py": "from ._shared import loaded\nloaded.append(__name__)\n" + ONE.format("b"),
            "tasks/_shared.py": "loaded = []\n",
        },
    )

    found = load("tasks")

    assert ["a", "b"] == names(found)
    assert ["tasks.b"] == sys.modules["tasks._shared"].loaded


def test_a_folder_elsewhere_is_loaded_from_the_folder_above_it(
    here: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """In a container the tasks may be mounted outside of the worker's folder."""
    away = write(
        tmp_path_factory.mktemp("away"),
        {"my_tasks/a.py": "import my_tasks.b\n" + ONE.format("a"), "my_tasks/b.py": ONE.format("b")},
    )

    assert ["a", "b"] == names(load(str(away / "my_tasks")))


GENERATOR = ONE.format("a").replace("...", "\n    yield 1")


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        (
            "tasks/a.py",
            "\nimport no_such_one\n",
            "ModuleNotFoundError: No module named 'no_such_one' (tasks/a.py, line 2)",
        ),
        ("tasks/a.py", "def f(:\n", "(tasks/a.py, line 1)"),
        (
            "tasks/a.py",
            "import sys\n\nsys.exit(0)\n",
            "tasks/a.py cannot be loaded: SystemExit: 0 (tasks/a.py, line 3)",
        ),
        ("tasks/a.py", "import json\njson.loads('')\n", "(tasks/a.py, line 2)"),
        (
            "tasks/a.py",
            GENERATOR,
            "the handler is a generator (it has a yield); a handler is a plain function (tasks/a.py, line 3)",
        ),
        ("tasks/a.py", "x = 1\n", "tasks/a.py has no task: decorate a function with @task"),
        ("tasks/a b.py", ONE.format("a"), "tasks/a b.py: 'a b' cannot be part of a task's name"),
        ("tasks/x.y/a.py", ONE.format("a"), "tasks/x.y/a.py: 'x.y' cannot be part of a task's name"),
        ("tasks/" + "a" * 129 + ".py", ONE.format("a"), "identifier is 129 characters long, at most 128 are allowed"),
        ("tasks/readme.txt", "", "tasks has no task file"),
    ],
)
def test_a_load_error_names_the_file_and_the_line(here: Path, path: str, text: str, expected: str) -> None:
    """A worker that starts without one of its tasks would leave its jobs waiting."""
    write(here, {path: text})

    assert expected in refusal("tasks")


def test_an_error_in_a_module_that_a_task_file_imports_names_that_module(here: Path) -> None:
    """The error is in that module."""
    write(here, {"tasks/a.py": "import app_db\n", "app_db.py": "\n\n1/0\n"})

    assert "tasks/a.py cannot be loaded: ZeroDivisionError: division by zero (app_db.py, line 3)" == refusal("tasks")


def test_a_folder_with_the_name_of_another_module_is_refused(here: Path) -> None:
    """`json/a.py` cannot be imported beside Python's own json. Skipping it silently would leave its task out."""
    write(here, {"json/a.py": ONE.format("a")})

    assert "json/a.py cannot be loaded: no module 'json.a' exists" in refusal("json")
    assert "is another module of that name" in refusal("json")


MODULE = """
from asyncq import Worker, task

@task
async def one(ctx): ...

@task
async def two(ctx): ...

class Box:
    tasks = (two,)

both = [one, two]
nothing = []
worker = Worker("postgresql:///none", [one])
plain = len
"""


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("app_one", ["one", "two"]),
        ("app_one:two", ["two"]),
        ("app_one:both", ["one", "two"]),
        ("app_one:Box.tasks", ["two"]),
    ],
)
def test_a_module_gives_all_its_tasks_or_those_of_a_name(here: Path, what: str, expected: list[str]) -> None:
    """One list of tasks serves the worker and the program that adds jobs."""
    write(here, {"app_one.py": MODULE})

    assert expected == names(load(what))


def test_a_module_that_only_imports_tasks_gives_these(here: Path) -> None:
    """A module that collects the tasks of a project is named without a list."""
    write(here, {"app_one.py": MODULE, "app_all.py": "from app_one import two\n"})

    assert ["two"] == names(load("app_all"))


def test_a_worker_object_is_given_as_it_is(here: Path) -> None:
    """Its options are set in the code."""
    write(here, {"app_one.py": MODULE})

    assert isinstance(load("app_one:worker"), Worker)


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("app_two", "app_two cannot be loaded: no module 'app_two' exists in "),
        ("app_one.sub", "app_one.sub cannot be loaded: no module 'app_one.sub' exists in "),
        ("app_one:three", "app_one:three: module app_one has no 'three'"),
        ("app_one:plain", "app_one:plain must be a task, a list or tuple of tasks, or a Worker, got <built-in"),
        ("app_one:nothing", "app_one:nothing is empty"),
        ("app_empty", "module app_empty has no task"),
        ("app_one.py", "app_one.py is not a folder of tasks: a file is loaded with its folder, or as module:name"),
        ("no/such/folder", "no/such/folder is not a folder of tasks: no such folder exists"),
        ("app one", "'app one' is neither a folder nor module or module:name"),
    ],
)
def test_a_word_that_names_no_tasks_is_refused(here: Path, what: str, expected: str) -> None:
    """The message says what to write instead."""
    write(here, {"app_one.py": MODULE, "app_empty.py": ""})

    assert expected in refusal(what)


def test_renamed_gives_a_copy_and_leaves_the_task_alone() -> None:
    """The module's own task may be used to add jobs by its own name."""
    task = Task(lambda: None, name="a", flags=["x"])

    other = task.renamed("b")

    assert ("a", "b") == (task.job().task, other.job().task)
    assert ("x",) == other.job().flags


def test_the_crontab_of_a_folder_of_tasks_is_beside_it(here: Path) -> None:
    """Inside, it would be treated as a task. The file is optional."""
    write(
        here,
        {
            "jobs/tasks/hello.py": ONE.format("run"),
            "tasks/hello.py": ONE.format("run"),
            "jobs/crontab": "",
            "tasks/crontab": "",
        },
    )

    assert here / "jobs/crontab" == crontab_beside(Path("jobs/tasks"))
    assert None is crontab_beside(Path("tasks"))


def test_a_crontab_is_read_from_a_file(here: Path) -> None:
    """It is read as UTF-8, with or without a byte order mark, in any locale."""
    (here / "crontab").write_bytes("\ufeff# täglich\r\n0 4 * * * rollup {day: 'Dönerstag'}\r\n".encode())

    [item] = load_crontab(Path("crontab"))

    assert ("rollup", {"day": "Dönerstag"}) == (item.identifier, item.payload)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"60 * * * * rollup\n", "crontab cannot be used: line 1, column 1: minute is 60, expected 0 to 59"),
        (b"# fine\n0 4 * * * caf\xe9\n", "crontab cannot be used: line 2: this is not UTF-8"),
        (None, "crontab cannot be used: it cannot be read: No such file or directory"),
    ],
)
def test_a_crontab_that_cannot_be_read_is_named(here: Path, content: bytes | None, said: str) -> None:
    """There may be several crontabs, and the user may have edited another one."""
    if content is not None:
        (here / "crontab").write_bytes(content)

    with pytest.raises(InvalidCrontab) as caught:
        load_crontab(Path("crontab"))

    assert said == str(caught.value)
