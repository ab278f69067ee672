"""Finds the tasks that the command line names, in a folder or a module, and the crontab beside a folder.

A task in a file with one task has the path as its name. Tasks in a file with several keep their own names. A name that
was given by `@task(name=...)` is always kept. Files and folders that begin with `_` or a dot are not task files.
"""

import importlib
import operator
import os
import re
import sys
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from asyncq.domain.cron.item import CronItem
from asyncq.domain.cron.text import parse_crontab
from asyncq.domain.errors import CrontabProblem, InvalidCrontab, TaskError
from asyncq.domain.limit import Queue
from asyncq.domain.task import Task
from asyncq.worker import Worker

# The names that a module of --tasks may have for these options.
LIFESPAN = "worker_lifespan"
CODEC = "worker_codec"

_PART = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


def load(what: str) -> Sequence[Task[...] | Queue] | Worker:
    """Load the tasks, at least one, or the Worker that the argument names: a folder or file of tasks, or `module:name`.

    Beside the tasks there may be limits of queues, each a `Queue`.
    If a folder of that name exists, it is used. Modules are searched in the current folder first. TaskError has the
    file and the line.
    """
    importlib.invalidate_caches()
    _search_first(Path.cwd())
    if os.path.isdir(what):
        return load_folder(Path(what))
    if os.sep in what or what.endswith(".py"):
        instead = "a file is loaded with its folder, or as module:name"
        said = instead if os.path.exists(what) else "no such folder exists"
        raise TaskError(f"{what} is not a folder of tasks: {said}")
    module_name, _, name = what.partition(":")
    if not _is_module_name(module_name):
        raise TaskError(f"{what!r} is neither a folder nor module or module:name")
    module = _import(module_name, module_name, Path.cwd())
    if name:
        return _as_tasks(what, _attribute(what, module, name))
    if tasks := _tasks(module):
        return [*tasks, *_queues(module)]
    raise TaskError(f"module {what} has no task: decorate a function with @task, or name a list as {what}:name")


def load_option(option: str, named: str | None, tasks: str) -> Any:
    """Load the lifespan or the codec that the command line names as `module:name`.

    Without one it is `worker_lifespan` or `worker_codec`, as `option` says, of the module with the tasks; None if that
    does not exist. TaskError as `load`.
    """
    if named is None:
        return None if os.path.isdir(tasks) else getattr(sys.modules[tasks.partition(":")[0]], option, None)
    module_name, _, name = named.partition(":")
    if not name or not _is_module_name(module_name):
        raise TaskError(f"{option.removeprefix('worker_')} {named!r} is not module:name")
    return _attribute(named, _import(module_name, module_name, Path.cwd()), name)


def _is_module_name(name: str) -> bool:
    return all(part.isidentifier() for part in name.split("."))


def load_folder(folder: Path) -> list[Task[...] | Queue]:
    """Load the tasks and queues of all task files below a folder, in the order of their paths.

    TaskError if a file has no task. Below the current folder, files are imported as modules of that (`tasks/mail.py` as
    `tasks.mail`), else as modules of the folder's parent.
    """
    root = _root(folder)
    _search_first(root)
    tasks = [task for path in _files(folder) for task in _in_file(path, folder, root)]
    if not tasks:
        raise TaskError(f"{folder} has no task file: put a .py file with a function decorated with @task into it")
    return tasks


def crontab_beside(folder: Path) -> Path | None:
    """The file `crontab` beside a folder of tasks; None if it does not exist."""
    path = folder.resolve().parent / "crontab"
    return path if path.is_file() else None


def load_crontab(path: Path) -> tuple[CronItem, ...]:
    """Read the items of a crontab in UTF-8, in the order of the lines; InvalidCrontab has lines and columns."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidCrontab([CrontabProblem(f"it cannot be read: {error.strerror}")], str(path)) from error
    except UnicodeDecodeError as error:
        line = 1 + error.object.count(b"\n", 0, error.start)
        raise InvalidCrontab([CrontabProblem("this is not UTF-8", line=line)], str(path)) from error
    return parse_crontab(text, source=str(path))


def _files(folder: Path) -> Iterator[Path]:
    """Yield the task files, folder by folder."""
    for parent, folders, files in os.walk(folder, onerror=_refuse):
        folders[:] = sorted(name for name in folders if not name.startswith(("_", ".")))
        yield from (
            Path(parent, name) for name in sorted(files) if name.endswith(".py") and not name.startswith(("_", "."))
        )


def _refuse(error: OSError) -> None:
    raise TaskError(f"{error.filename} cannot be read: {error.strerror}") from error


def _in_file(path: Path, folder: Path, root: Path) -> list[Task[...] | Queue]:
    parts = path.relative_to(folder).with_suffix("").parts
    if bad := next((part for part in parts if not _PART.fullmatch(part)), None):
        raise TaskError(f"{path}: {bad!r} cannot be part of a task's name; A-Z a-z 0-9 _ - can")
    module_name = ".".join(path.resolve().relative_to(root).with_suffix("").parts)
    module = _import(module_name, str(path), root)
    if Path(module.__file__ or "").resolve() != path.resolve():
        raise TaskError(f"{path} cannot be imported: the name {module_name!r} belongs to {module.__file__}; rename it")
    own = [task for task in _tasks(module) if not _comes_from_elsewhere(task, module)]
    if not own:
        raise TaskError(f"{path} has no task: decorate a function with @task, or begin the file's name with _")
    if len(own) == 1 and not own[0].is_named:
        own = [own[0].renamed("/".join(parts))]
    return [*own, *_queues(module)]


def _comes_from_elsewhere(task: Task[...], module: ModuleType) -> bool:
    """Whether the module only imported the task: another module, which defined the handler, has it too."""
    home = sys.modules.get(task.__module__)
    return home is not None and home is not module and any(item is task for item in _tasks(home))


def _tasks(module: ModuleType) -> list[Task[...]]:
    values: list[Any] = [value for value in vars(module).values() if isinstance(value, Task)]
    return list({id(value): value for value in values}.values())


def _queues(module: ModuleType) -> list[Queue]:
    return [value for value in vars(module).values() if isinstance(value, Queue)]


def _attribute(what: str, module: ModuleType, name: str) -> Any:
    try:
        return operator.attrgetter(name)(module)
    except AttributeError as error:
        raise TaskError(f"{what}: module {module.__name__} has no {name!r}") from error


def _as_tasks(what: str, value: Any) -> Sequence[Task[...] | Queue] | Worker:
    if isinstance(value, Worker):
        return value
    tasks = cast("Sequence[Any]", value) if isinstance(value, list | tuple) else [value]
    for item in tasks:
        if not isinstance(item, Task | Queue):
            raise TaskError(
                f"{what} must be a task, a list or tuple of tasks, or a Worker, got {item!r}; "
                "is the function decorated with @task?"
            )
    if not tasks:
        raise TaskError(f"{what} is empty: at least one task is needed")
    return tasks


def _import(name: str, shown: str, root: Path) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            top = getattr(sys.modules.get(name.partition(".")[0]), "__file__", None)
            found = f"; {top} is another module of that name" if top is not None else ""
            raise TaskError(f"{shown} cannot be loaded: no module {error.name!r} exists in {root}{found}") from error
        raise _cannot_load(shown, error, root) from error
    # SystemExit too: a module that ends the process at import must not look like a normal end of the worker.
    except (Exception, SystemExit) as error:
        raise _cannot_load(shown, error, root) from error


def _cannot_load(shown: str, error: BaseException, root: Path) -> TaskError:
    what = str(error) if isinstance(error, TaskError) else f"{type(error).__name__}: {error}"
    return TaskError(f"{shown} cannot be loaded: {what} ({_place(error, root)})")


def _place(error: BaseException, root: Path) -> str:
    """The last file and line of the user's own code, not of a library."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{_short(error.filename)}, line {error.lineno}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<frozen ")]
    own = [frame for frame in frames if _is_below(frame.filename, root)]
    frame = (own or frames)[-1]
    return f"{_short(frame.filename)}, line {frame.lineno}"


def _is_below(filename: str, root: Path) -> bool:
    path = Path(filename).resolve()
    libraries = {"site-packages", "dist-packages", "asyncq"}
    return path.is_relative_to(root) and not libraries & set(path.relative_to(root).parts)


def _short(filename: str) -> str:
    path = Path(filename)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else filename


def _root(folder: Path) -> Path:
    """The folder below which the task files are modules."""
    there, here = folder.resolve(), Path.cwd().resolve()
    if there.is_relative_to(here) and all(_PART.fullmatch(part) for part in there.relative_to(here).parts):
        return here
    return there.parent


def _search_first(folder: Path) -> None:
    """Make Python search a folder before all others."""
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
