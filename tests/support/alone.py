"""An oracle that knows no database: each run of a job holds the lock of a file, and says when it starts and ends."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Alone:
    """The runs of jobs that may not overlap, in any process.

    Args:
        folder: Where the locks and the log are; processes that share it are judged together.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def run(self, job_id: int, who: object) -> Iterator[None]:
        """One run of a job, for as long as the block lasts, or the process."""
        with (self._folder / f"{job_id}.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._note("overlap", job_id, who)
            self._note("start", job_id, who)
            try:
                yield
            finally:
                self._note("end", job_id, who)

    def _note(self, *words: object) -> None:
        with (self._folder / "log").open("a") as log:
            print(*words, file=log)

    @property
    def log(self) -> list[str]:
        """The events, in order."""
        path = self._folder / "log"
        return path.read_text().splitlines() if path.exists() else []

    @property
    def overlaps(self) -> list[str]:
        """Runs that began beside another one of the same job."""
        return [line for line in self.log if line.startswith("overlap")]
