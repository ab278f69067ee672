"""Makes all parts of one worker, each with the parts that it uses. No part replaces parts of another one later."""

import os
from collections.abc import Callable, Sequence
from functools import partial

from anyio import CapacityLimiter

from asyncq.domain.cron.item import CronItem
from asyncq.domain.options import LONGEST_POLL_S, WorkerOptions
from asyncq.domain.share import Choice
from asyncq.domain.task import Registry
from asyncq.engine.base.groups import WorkerTasks
from asyncq.engine.base.identity import Identity
from asyncq.engine.base.lease import BEATS_A_LEASE, Lease
from asyncq.engine.base.observers import Observers
from asyncq.engine.canceller import Canceller
from asyncq.engine.collector import Collector, collects
from asyncq.engine.cron.scheduler import Cron
from asyncq.engine.fetch.fetcher import Fetcher
from asyncq.engine.fetch.handoff import Handoff
from asyncq.engine.fetch.inbox import Inbox
from asyncq.engine.fetch.oncall import OnCall
from asyncq.engine.fetch.pauses import Pauses
from asyncq.engine.fetch.schedule import Schedule
from asyncq.engine.fetch.shares import Shares
from asyncq.engine.fetch.unconfirmed import UnconfirmedFetches
from asyncq.engine.job_loop import JobLoops
from asyncq.engine.liveness.fallback_heartbeat import FallbackHeartbeat
from asyncq.engine.liveness.heartbeat import Heartbeat
from asyncq.engine.liveness.heartbeat_thread import HeartbeatCallbacks
from asyncq.engine.liveness.loop_watchdog import LoopWatchdog
from asyncq.engine.liveness.membership import Membership
from asyncq.engine.liveness.start_gate import StartGate
from asyncq.engine.maintenance.rounds import Rounds
from asyncq.engine.probes.vitals import Vitals
from asyncq.engine.run.around import Around
from asyncq.engine.run.child_tasks import ChildTasks
from asyncq.engine.run.executor import Executor
from asyncq.engine.run.processes import Processes
from asyncq.engine.run.progress import ProgressWriter, ReportedRun
from asyncq.engine.run.results import Results
from asyncq.engine.run.run import Run
from asyncq.engine.run.stuck import Stuck
from asyncq.engine.run.transactions import HandlerResources
from asyncq.engine.settle.claim_next import ClaimNext
from asyncq.engine.settle.closer import Closer
from asyncq.engine.settle.completer import Completer
from asyncq.engine.settle.outbox import Outbox
from asyncq.engine.settle.reporter import Reporter
from asyncq.engine.settle.wake_ups import WakeUps
from asyncq.engine.tally import Tally
from asyncq.store.database import Database, HandlerPool, ReconnectingConnection


class Parts:
    """The parts of one worker, for one run; with `once` it ends when no job is due any more."""

    def __init__(
        self,
        database: Database,
        registry: Registry,
        options: WorkerOptions,
        observers: Observers,
        *,
        around: Around,
        choice: Choice,
        items: Sequence[CronItem],
        listens: bool,
        once: bool,
    ) -> None:
        self._options, self._observers = options, observers
        self._watchdog: LoopWatchdog | None = None
        self.tasks = WorkerTasks()
        self.identity = identity = Identity(registry, options.keep_s or 0.0, choice.exclude)
        self.shares = Shares(choice, identity)
        self.reading = ReconnectingConnection(database, "fetch", generic_plans=True)
        self.writing = ReconnectingConnection(database, "settle", generic_plans=True)
        self.pool = HandlerPool(database, options.pool_size, options.pool_wait_s)
        self.lease = Lease(options.lease_s)
        self.heartbeat = Heartbeat(database, options, registry, self.lease, choice)
        self._make_executor(database, around)
        self._make_fetcher(self.tasks.start_soon)
        self._make_completer(database, self.tasks.start_soon, listens=listens, once=once)
        lines = [self.writing, self.reading]
        self.fallback = FallbackHeartbeat(lines, identity, self.start_gate, self.heartbeat, self.stuck)
        # A worker without LISTEN checks for changed items as often as for jobs.
        longest_s = LONGEST_POLL_S if listens else options.poll_s
        self.cron = Cron(database, self.reading, items, identity, observers, longest_s=longest_s)
        self.maintenance = Rounds(database, self.reading, identity, observers, options)
        self.pauses = Pauses(self.inbox, self.schedule, observers, paused=self.maintenance.mover.hurry)
        self.membership = Membership(
            self.reading,
            identity,
            observers,
            lease=self.lease,
            heartbeat=self.heartbeat,
            inbox=self.inbox,
            schedule=self.schedule,
            unconfirmed=self.unconfirmed,
            executor=self.executor,
            start_gate=self.start_gate,
            rejoined=self.cron.wake,  # It declares its items under the new id.
            start_soon=self.tasks.start_soon,
        )

    def _make_executor(self, database: Database, around: Around) -> None:
        """Make the parts that start, run and cancel handlers."""
        identity, observers, limit = self.identity, self._observers, self._options.concurrency
        running, threads = set[Run](), CapacityLimiter(limit)
        line, lease_s = self.writing, self._options.lease_s
        self.progress = ProgressWriter(line, observers, live=self._reported_runs, start_soon=self.tasks.start_soon)
        resources = HandlerResources(
            database, self.pool, line, observers, lease_s, self.progress, add_middleware=around.add_middleware
        )
        self.results = Results(observers, self._options.max_result, database.envelopes)
        self.child_tasks = ChildTasks()
        self.start_gate = StartGate(self.lease, running, self.heartbeat.beat_now)
        self.processes = Processes(self._options.processes or os.cpu_count() or 1, self._options.process_memory)
        self.stuck = Stuck(limit, identity, threads, observers, replace=self._replace_loop, changed=self._stuck_changed)
        self.executor = Executor(
            identity,
            resources,
            observers,
            threads,
            self.child_tasks,
            self.lease,
            around=around,
            processes=self.processes,
            results=self.results,
            running=running,
            watch=self.stuck.watch,
            is_proven=self.start_gate.is_proven,
        )

    def _make_fetcher(self, start_soon: Callable[..., None]) -> None:
        """Make the parts that fetch claims, and the outbox, which takes claims that cannot start."""
        line, identity, observers = self.reading, self.identity, self._observers
        self.tally = Tally(line, identity, observers, self.lease, counts=self._options.stats)
        self.reporter = Reporter(observers, start_soon, self.tally)
        self.outbox = Outbox(self.reporter, observers, self.shares)
        self.inbox = inbox = Inbox(identity, self.lease, self.outbox.give_back)
        self.schedule = schedule = Schedule(
            inbox, self._options, may_fetch=self._may_fetch, finished=self._finished, following=self.outbox.following
        )
        self.unconfirmed = UnconfirmedFetches(line, observers)
        self.on_call = OnCall(schedule.wake, schedule.wake_in, start_soon)
        self.handoff = Handoff(line, identity, observers, self.unconfirmed, inbox, schedule, start_soon=start_soon)
        self.fetcher = Fetcher(
            line,
            identity,
            self._options,
            observers,
            inbox,
            schedule,
            unconfirmed=self.unconfirmed,
            on_call=self.on_call,
            handoff=self.handoff,
            shares=self.shares,
            is_proven=self.start_gate.is_proven,
        )
        self.canceller = Canceller(identity, inbox, self.executor, self.start_gate)

    def _make_completer(
        self, database: Database, start_soon: Callable[..., None], *, listens: bool, once: bool
    ) -> None:
        """Make the parts that write the results of runs, and the job loops."""
        line, observers, inbox, outbox = self.writing, self._observers, self.inbox, self.outbox
        self.wake_ups = WakeUps(line, observers, self.schedule, self.on_call, start_soon, once=once)
        self.collector = None
        if collects(self.identity.registry):
            is_last = partial(self._has_all_due, once=once)
            self.collector = Collector(self.identity, inbox.buffer, observers, is_last=is_last)
        # A worker without LISTEN looks as often as for jobs.
        every_s = self._options.lease_s / BEATS_A_LEASE if listens else self._options.poll_s
        self.closer = Closer(self.reading, observers, self.schedule, every_s=every_s)
        claim_next = ClaimNext(line, self.identity, inbox, self.schedule, self.unconfirmed)
        self.completer = Completer(
            line,
            outbox,
            observers,
            self.reporter,
            claim_next,
            settled=self.wake_ups.settled,
            look=self.closer.hurry,
            results=self.results,
            keeps_errors=self._options.error_retention_s is not None,
            envelopes=database.envelopes,
        )
        self.loops = JobLoops(
            self.identity,
            inbox,
            outbox,
            self.executor,
            self.completer,
            self.start_gate,
            collector=self.collector,
            start_soon=start_soon,
        )

    def start_heartbeat(self, fail: Callable[[Exception], None]) -> None:
        """Start the heartbeat thread; `fail` is called with the error if the worker must not continue."""
        callbacks = HeartbeatCallbacks(
            emit=self._observers.emit,
            lost=self.membership.lost,
            gave_up=self.membership.gave_up,
            regained=self.membership.regained,
            cancelled=self.canceller.cancel,
            named=self.start_gate.named,
            fallback=self.fallback.ask,
            rescue=self.maintenance.hurry,
            fail=fail,
            started=self.start_gate.started,
            stuck=self.stuck.ids,
        )
        after_s = self._options.blocked_after_s
        watchdog = LoopWatchdog(after_s, self.identity, self.executor, self.child_tasks, self._observers.emit)
        self._watchdog = watchdog
        self.heartbeat.start(callbacks, watchdog)

    def vitals(self, is_stopping: Callable[[], bool]) -> Vitals:
        """The state that probes report."""
        return Vitals(
            identity=self.identity,
            lease=self.lease,
            concurrency=self._options.concurrency,
            running=lambda: len(self.executor.running),
            stuck=lambda: len(self.stuck.ids()),
            is_stopping=is_stopping,
            blocking=lambda: None if self._watchdog is None else self._watchdog.blocking(),
        )

    def leave_loop(self) -> None:
        """Start nothing more in the event loop, and restore its task factory; called once the worker has ended."""
        self.progress.stop()
        self.child_tasks.uninstall()

    async def close(self) -> None:
        """End the processes of handlers, stop the heartbeat, and close the connections."""
        await self.processes.close()
        # If the worker has started, its heartbeat is stopped already.
        await self.heartbeat.stop(forget_worker=True)
        await self.reading.close()
        await self.writing.close()
        await self.pool.close()

    @property
    def is_calm(self) -> bool:
        """Whether no job runs, waits or has to be written, and the last fetch found no job."""
        busy = self.executor.running or len(self.inbox.buffer) or self.outbox.unwritten or self.start_gate.waiting
        if busy or not self.schedule.is_idle:
            return False
        # Calls that wait for more jobs start now: none is due.
        return self.collector is None or not self.collector.hurry()

    def _has_all_due(self, *, once: bool) -> bool:
        return once and self.schedule.is_idle

    def _may_fetch(self) -> bool:
        return self.identity.worker_id > 0 and self.lease.is_held and not self.stuck.is_full

    def _reported_runs(self) -> set[ReportedRun | None]:
        return {run.progress for run in self.executor.running}

    def _finished(self) -> int:
        return self.executor.finished

    def _replace_loop(self) -> None:
        self.loops.start()

    def _stuck_changed(self) -> None:
        """Store the stuck handlers by a heartbeat, and continue or stop to fetch, by their number."""
        if self.stuck.is_full:
            self.inbox.return_all("too many handlers are stuck")
        self.heartbeat.beat_now()
        self.schedule.wake()
