"""The job loops of a worker, one for each slot: take a claim, run its job, pass the result on, repeat."""

import time
from collections.abc import Callable, Sequence

import anyio

from asyncq.domain.job import Claim
from asyncq.engine.base.identity import Identity
from asyncq.engine.base.lease import now_s
from asyncq.engine.collector import Collector
from asyncq.engine.fetch.inbox import Inbox
from asyncq.engine.liveness.start_gate import StartGate
from asyncq.engine.run.executor import Executor
from asyncq.engine.settle.completer import Completer
from asyncq.engine.settle.outbox import Outbox

LATE = "a rate counts when they were claimed, and they did not start soon enough"
REFUSED = "the worker could not prove that it lives, or stops"


class JobLoops:
    """The job loops of one worker."""

    def __init__(
        self,
        identity: Identity,
        inbox: Inbox,
        outbox: Outbox,
        executor: Executor,
        completer: Completer,
        start_gate: StartGate,
        *,
        collector: Collector | None,
        start_soon: Callable[..., object],
    ) -> None:
        self._buffer = inbox.buffer
        self._outbox = outbox
        self._executor = executor
        self._completer = completer
        self._start_gate = start_gate
        self._identity = identity
        self.collector = collector
        self._start_soon = start_soon
        self.running = 0
        self.ended = anyio.Event()

    def start(self) -> None:
        self.running += 1
        self._start_soon(self._loop)

    async def _loop(self) -> None:
        await self._until_closed()
        self.running -= 1
        if not self.running:
            self.ended.set()

    async def _until_closed(self) -> None:
        """Run jobs until the buffer is closed, or until another loop has replaced this one because its job is stuck.

        If cancelled, the current job continues without its worker, and is not settled.
        """
        buffer, executor, completer, outbox = self._buffer, self._executor, self._completer, self._outbox
        collector = self.collector
        while (claim := buffer.pop() or await buffer.take()) is not None:
            if collector is not None and (rule := collector.rule_of(claim)) is not None:
                if not await self._call_once(await collector.collect(claim, rule)):
                    return
                continue
            if not self._start_gate.may_start_now(claim):
                worker_id = self._identity.worker_id
                if not await self._start_gate.admit(claim):
                    outbox.give_back([claim], REFUSED, worker_id)
                    continue
            if claim.start_by is not None and now_s() > claim.start_by:
                outbox.give_back([claim], LATE, self._identity.worker_id)
                continue
            run, outcome = executor.start(claim)
            never_waited = outcome is not None
            if outcome is None:
                outcome = await executor.end(run)
            completer.hand_over(run, outcome)
            if never_waited:
                buffer.held(run.duration_s)
            if run.is_replaced:
                return
            if outbox.is_full:
                await outbox.room()

    async def _call_once(self, claims: Sequence[Claim]) -> bool:
        """Run collected jobs in one call, and pass the outcome of each on; False if another loop has replaced this one.

        If cancelled, the call continues without its worker, and none of its jobs is settled.
        """
        admitted: list[Claim] = []
        for claim in claims:
            worker_id = self._identity.worker_id
            if self._start_gate.may_start_now(claim) or await self._start_gate.admit(claim):
                admitted.append(claim)
            else:
                self._outbox.give_back([claim], REFUSED, worker_id)
        call, outcome, ended = self._executor.start_call(admitted)
        if call is not None:
            if outcome is not None:
                self._buffer.held(time.perf_counter() - call.started_at)
            ended += call.results(outcome or await self._executor.end(call))
        for run, each in ended:
            self._completer.hand_over(run, each)
        if self._outbox.is_full:
            await self._outbox.room()
        return call is None or not call.is_replaced
