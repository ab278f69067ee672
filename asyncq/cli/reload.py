"""Watches the code of a worker: `.py` files and the crontab. `asyncq worker --reload` starts the worker again then.

With the package watchfiles the operating system says what changes. Without it, or if the system cannot watch so many
folders, a thread compares the times and sizes of the files every half second.
"""

import importlib.util
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from asyncq.engine.base.records import LOGGER, write

PERIOD_S = 0.5
_SKIPPED = ("__pycache__", "node_modules", "site-packages")

Seen = dict[str, tuple[int, int, int]]


class Watch:
    """The files that are watched: `.py` files below folders, and single files, which need not exist yet.

    Hidden folders, virtual environments and installed packages are left out.
    """

    def __init__(self, folders: Sequence[Path], files: Sequence[Path] = ()) -> None:
        resolved = sorted({folder.resolve() for folder in folders})
        self._folders = [one for one in resolved if not any(other in one.parents for other in resolved)]
        self._files = {str(path.resolve()) for path in files}

    def start(self, changed: Callable[[Path], None]) -> None:
        """Call a function from a thread after each change, from now on until the process ends."""
        seen = self._look()
        threading.Thread(target=self._run, args=(changed, seen), name="asyncq reload", daemon=True).start()

    def _run(self, changed: Callable[[Path], None], seen: Seen) -> None:
        for _ in self._alarms():
            now = self._look()
            if different := sorted(path for path, _ in seen.items() ^ now.items()):
                changed(Path(different[0]))
            seen = now

    def _alarms(self) -> Iterator[None]:
        """Yield whenever something may have changed."""
        above = [Path(path).parent for path in self._files]
        places = [*self._folders, *(one for one in above if not any(map(one.is_relative_to, self._folders)))]
        try:
            import watchfiles

            logging.getLogger(watchfiles.__name__).setLevel(logging.WARNING)  # It would report each change.
            for _ in watchfiles.watch(
                *places, watch_filter=self._is_relevant, yield_on_timeout=True, raise_interrupt=False
            ):
                yield
        except ImportError:
            pass
        except (OSError, RuntimeError) as error:
            # Linux limits the number of folders that a user watches.
            said = "watchfiles cannot watch (%s): files are compared twice a second"
            write(LOGGER, logging.WARNING, said, (error,), {"asyncq_event": "WorkerGroup"})
        while True:
            time.sleep(PERIOD_S)
            yield

    def _is_relevant(self, _: object, path: str) -> bool:
        return path.endswith(".py") or path in self._files

    def _look(self) -> Seen:
        found: Seen = {}
        for path in self._paths():
            try:
                status = os.stat(path)
            except OSError:
                continue
            found[path] = (status.st_mtime_ns, status.st_size, status.st_ino)
        return found

    def _paths(self) -> Iterator[str]:
        yield from self._files
        for top in self._folders:
            for parent, folders, files in os.walk(top):
                folders[:] = [name for name in folders if not _is_skipped(parent, name)]
                yield from (os.path.join(parent, name) for name in files if name.endswith(".py"))


def _is_skipped(parent: str, name: str) -> bool:
    return name.startswith(".") or name in _SKIPPED or os.path.exists(os.path.join(parent, name, "pyvenv.cfg"))


def watch_of(tasks: str, crontab: str | None) -> Watch:
    """What a worker with these options loads: the current folder, the folder or package of the tasks, the crontab."""
    files = [] if crontab is None else [Path(crontab)]
    if os.path.isdir(tasks):
        return Watch([Path.cwd(), Path(tasks)], files or [Path(tasks).resolve().parent / "crontab"])
    return Watch([Path.cwd(), *_package(tasks.partition(":")[0].partition(".")[0])], files)


def _package(name: str) -> Iterator[Path]:
    """The folders of a package that is outside of the current folder, and is not an installed one."""
    try:
        found = importlib.util.find_spec(name) if name.isidentifier() else None
    except (ImportError, ValueError):
        return
    for folder in (found and found.submodule_search_locations) or ():
        if "site-packages" not in folder:
            yield Path(folder)
