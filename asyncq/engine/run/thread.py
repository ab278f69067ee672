"""Runs a plain function in a thread. The job runs as long as the thread does, whatever cancels the wait for it."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import anyio.to_thread
from anyio import CapacityLimiter

from asyncq.domain.job import is_awaitable
from asyncq.engine.base.to_the_end import until_done
from asyncq.engine.run.run import Run


class _Thread:
    """One call in a thread: it begins unless the wait for it was given up before."""

    def __init__(self, run: Run, call: Callable[[], Any]) -> None:
        self._run = run
        self._call = call
        self._lock = threading.Lock()
        self._is_given_up = False
        self._ended: Future[None] = Future()

    def __call__(self) -> Any:
        with self._lock:
            if self._is_given_up:
                raise asyncio.CancelledError
            self._run.thread_id = threading.get_ident()
            # In this order: `Run.cancel` sets its mark, then checks whether the thread runs. One of the two sees the
            # other.
            self._run.in_thread = True
        try:
            if self._run.interrupted:
                raise asyncio.CancelledError
            return self._call()
        finally:
            self._ended.set_result(None)

    async def give_up(self) -> None:
        """Prevent that it begins, or else wait until it has ended, in spite of further cancellations."""
        with self._lock:
            self._is_given_up = True
        if self._run.in_thread and not self._ended.done():
            await until_done(asyncio.wrap_future(self._ended))


async def run_in_thread(run: Run, call: Callable[[], Any], limiter: CapacityLimiter) -> Any:
    """Call the plain function of a run in a thread, and return its result.

    If cancelled, it waits for the end of a thread that has begun: while the thread runs, the job runs, and its claim
    is held.
    """
    thread = _Thread(run, call)
    try:
        answer = await anyio.to_thread.run_sync(thread, limiter=limiter)
    except asyncio.CancelledError:
        await thread.give_up()
        raise
    finally:
        run.in_thread = False
        if run.limit is not None:
            run.limit.thread_ended()
        if run.is_cancelled_later and run.handler is not None:
            # Not at once: a run that ends without another wait has done its work.
            asyncio.get_running_loop().call_soon(run.handler.cancel)
    # A plain function around an async one looks plain: its coroutine must still be run.
    return await answer if is_awaitable(answer) else answer
