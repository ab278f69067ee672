"""The processes in which plain functions of one worker run. They are started on demand, reused, and replaced.

Each is killed alone: when its job is cancelled or runs too long. One that dies fails its one job. The pools of the
standard library fail all jobs then, and cannot kill one process.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from asyncq.domain.address import Address
from asyncq.domain.errors import Discard, RaisedInProcess, RetryAfter, Snooze
from asyncq.domain.result import RefusedResult, UnwritableResult
from asyncq.engine.base.records import job_fields
from asyncq.engine.base.to_the_end import until_done
from asyncq.engine.run.frames import Order, Raised, Returned
from asyncq.engine.run.process import END_S, Process
from asyncq.engine.run.run import Run

MEMORY_EVERY_S = 0.2  # how often the memory of a process is compared with its limit
MIB = 1024 * 1024
CLOSE_S = END_S + 3.0  # how long all of them may take to end


class _MemoryWatch:
    """Kills a process that uses more than so many bytes of memory, until `end` is called."""

    def __init__(self, process: Process, limit: int | None) -> None:
        self._process = process
        self._timer: asyncio.TimerHandle | None = None
        if limit is not None:
            self._later(limit)

    def end(self) -> None:
        """Watch no longer."""
        if self._timer is not None:
            self._timer.cancel()

    def _later(self, limit: int) -> None:
        self._timer = asyncio.get_running_loop().call_later(MEMORY_EVERY_S, self._look, limit)

    def _look(self, limit: int) -> None:
        used = self._process.memory
        if used > limit:
            self._process.kill(
                f"the process of the handler used {used // MIB} MiB of memory, more than the {limit // MIB} MiB of "
                "process_memory, and was killed"
            )
        else:
            self._later(limit)


class Processes:
    """The processes of one worker, at most `limit`; further calls wait for one of them.

    One that uses more than `memory` bytes is killed while it runs a handler, and not used again.
    """

    def __init__(self, limit: int, memory: int | None = None) -> None:
        self._slots = asyncio.Semaphore(limit)
        self._memory = memory
        self._all: set[Process] = set()
        self._idle: list[Process] = []

    @property
    def ids(self) -> list[int]:
        """The ids of the processes that live."""
        return sorted(process.id for process in self._all)

    async def call(self, run: Run, address: Address) -> Any:
        """Call the handler of a run in a process, and return its result, or raise its error.

        The time limit begins when a process has imported the handler: one that was killed at the limit would else be
        too late again in its new process. If cancelled, it kills the process, and waits for its end.
        """
        if run.limit is None:
            return await self._call(run, address, lambda: None)
        run.limit.hold()
        try:
            return await self._call(run, address, run.limit.go_on)
        finally:
            # If the handler could not be called, what middleware does then takes time of the run.
            run.limit.go_on()

    async def _call(self, run: Run, address: Address, begin: Callable[[], None]) -> Any:
        async with self._slots:
            process = await self._free()
            order = Order(address.module, address.path, run.task.name, run.claim.payload, run.carried or [])
            fields = job_fields(run.claim, run.task.name, run.worker_id)
            watch = _MemoryWatch(process, self._memory)
            try:
                answer = await process.call(order, fields, begin)
            except BaseException:
                process.kill()
                await until_done(process.end)
                raise
            finally:
                watch.end()
            if self._memory is not None and process.memory > self._memory:
                process.close()
            elif process.is_alive:
                self._idle.append(process)
        return _result(run, answer)

    async def close(self) -> None:
        """Let all processes end, and kill those that run a handler. If cancelled, all are killed."""
        ends = [process.end for process in self._all]
        try:
            for process in list(self._all):
                if process in self._idle:
                    process.close()
                else:
                    process.kill()
            if ends:
                await asyncio.wait(ends, timeout=CLOSE_S)
        finally:
            for process in self._all:
                process.kill()

    async def _free(self) -> Process:
        """A process that can take a call."""
        while self._idle:
            if (process := self._idle.pop()).is_alive:
                return process
        process = Process(self._ended)
        self._all.add(process)
        try:
            await process.connect()
        except BaseException:
            process.kill()
            await until_done(process.end)
            raise
        return process

    def _ended(self, process: Process) -> None:
        self._all.discard(process)
        if process in self._idle:
            self._idle.remove(process)


def _result(run: Run, answer: Returned | Raised) -> Any:
    """The result of a handler, read by its return type; raises its error."""
    if isinstance(answer, Raised):
        raise _error(answer)
    if answer.refused is not None:
        return RefusedResult(answer.type_name, answer.refused)
    if answer.result is None:
        return None
    try:
        return run.task.signature.results.read(answer.result)
    except UnwritableResult as error:
        return RefusedResult(answer.type_name, str(error))


def _error(raised: Raised) -> Exception:
    traceback = raised.error.partition("\n\n")[2]
    error = RaisedInProcess(raised.message, type_name=raised.type_name, error=raised.error)
    if traceback:
        error.add_note(traceback)
    match raised.verdict:
        case None:
            return error
        case "Snooze":
            return Snooze(raised.delay_s)
        case "Discard":
            verdict: Discard | RetryAfter = Discard(raised.message)
        case "RetryAfter":
            verdict = RetryAfter(raised.delay_s, raised.message, partition=raised.partition)
    if traceback:
        verdict.__cause__ = error
    return verdict
