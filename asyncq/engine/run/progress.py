"""Writes the progress that handlers report: at most once a second, all reports in one statement.

Nothing exists for it until the first report of a worker: no asyncio task, no timer, no statement. The asyncio task ends
when no reported run is left. The row of a run that has ended is deleted by the next write.
"""

import asyncio
import threading
from collections.abc import Callable, Collection
from contextvars import copy_context

import anyio

from asyncq.domain.errors import AsyncqError
from asyncq.domain.events import MaintenanceFailed
from asyncq.domain.job import Claim
from asyncq.domain.outcome import error_text
from asyncq.domain.progress import Report
from asyncq.engine.base.observers import Observers
from asyncq.engine.base.outage import Outage
from asyncq.engine.base.shield import shielded
from asyncq.store.database import ReconnectingConnection
from asyncq.store.progress import write_progress

EVERY_S = 1.0


class ReportedRun:
    """The progress of one run.

    Attributes:
        latest: The last report; any thread may replace it.
        written: The last report that was written.
        may_be_stored: Whether there may be a row of it.
    """

    __slots__ = ("claim", "latest", "may_be_stored", "worker_id", "written")

    def __init__(self, claim: Claim, worker_id: int, latest: Report) -> None:
        self.claim = claim
        self.worker_id = worker_id
        self.latest = latest
        self.written: Report | None = None
        self.may_be_stored = False


class ProgressWriter:
    """The only writer of a worker's progress; made in the worker's event loop.

    `live` returns the reported runs that have not ended. `first_report` is held while a run gets its first report.
    """

    def __init__(
        self,
        line: ReconnectingConnection,
        observers: Observers,
        *,
        live: Callable[[], Collection[ReportedRun | None]],
        start_soon: Callable[..., None],
    ) -> None:
        self._line = line
        self._observers = observers
        self._live = live
        self._start_soon = start_soon
        self._outage = Outage("writing the progress of jobs", observers.emit)
        self._loop = asyncio.get_running_loop()
        # The asyncio task must not inherit the mark of the handler that calls first.
        self._variables = copy_context()
        self._runs: set[ReportedRun] = set()
        self._due_at = 0.0
        self._is_running = self._is_closed = False
        self._writing = anyio.Lock()
        self.first_report = threading.Lock()

    def add(self, run: ReportedRun) -> None:
        """Begin to write the reports of a run; any thread may call it."""
        try:
            self._loop.call_soon_threadsafe(self._add, run, context=self._variables)
        except RuntimeError:
            return  # The loop is closed: the worker of this thread has ended.

    def _add(self, run: ReportedRun) -> None:
        if self._is_closed:
            return
        self._runs.add(run)
        if not self._is_running:
            self._is_running = True
            self._start_soon(self._run)

    async def _run(self) -> None:
        clock = self._loop.time
        while self._runs:
            await anyio.sleep(max(self._due_at - clock(), 0.0))
            self._due_at = clock() + EVERY_S
            await self._write()
        self._is_running = False

    async def close(self) -> None:
        """Delete the rows of all runs that have ended, and ignore the first reports of further runs."""
        self.stop()
        if self._runs:
            await self._write()

    def stop(self) -> None:
        """Ignore the first reports of further runs; those of threads may come after the end of the worker."""
        self._is_closed = True

    async def _write(self) -> None:
        """Write the reports that changed, and delete the rows of ended runs; an error leaves it to the next round."""
        async with self._writing:
            live = self._live()
            ended = [run for run in self._runs if run not in live]
            # Read once: threads may report meanwhile.
            changed = {run: latest for run in self._runs if run in live and (latest := run.latest) != run.written}
            reports = [(run.claim, run.worker_id, report) for run, report in changed.items()]
            reports += [(run.claim, run.worker_id, None) for run in ended if run.may_be_stored]
            for run in changed:
                run.may_be_stored = True
            try:
                if reports:
                    async with shielded(self._line):
                        await write_progress(self._line, reports)
                    self._outage.over()
            except AsyncqError as error:
                said = f"the progress of jobs could not be written: {error_text(error)}"
                self._observers.emit(MaintenanceFailed(error=said, failures=self._outage.failed()))
                return
            for run, report in changed.items():
                run.written = report
            self._runs.difference_update(ended)
