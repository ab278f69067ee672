"""Registers a worker, and reacts when other workers declare it dead, or may do that soon."""

from collections.abc import Callable

import anyio

from asyncq.domain.errors import AsyncqError, StoreUnavailable
from asyncq.domain.events import LeaseInDoubt, LimitChanged, MaintenanceFailed, WorkerLost
from asyncq.engine.base.backoff import backoff_s
from asyncq.engine.base.identity import Identity
from asyncq.engine.base.lease import Lease
from asyncq.engine.base.observers import Observers
from asyncq.engine.base.outage import Outage
from asyncq.engine.fetch.inbox import Inbox
from asyncq.engine.fetch.schedule import Schedule
from asyncq.engine.fetch.unconfirmed import UnconfirmedFetches
from asyncq.engine.liveness.heartbeat import Heartbeat
from asyncq.engine.liveness.start_gate import StartGate
from asyncq.engine.run.executor import Executor
from asyncq.store import workers as store
from asyncq.store.database import ReconnectingConnection

LEARN_S = 0.25  # the pause before a worker asks again for ids of tasks
AGAIN_S = 1.0
LEAVE_TRIES = 4
FIRST_RETRY_S = 0.04


class Membership:
    """The registration of one worker; `registered` is set while it is known, or will not be known again."""

    def __init__(
        self,
        line: ReconnectingConnection,
        identity: Identity,
        observers: Observers,
        *,
        lease: Lease,
        heartbeat: Heartbeat,
        inbox: Inbox,
        schedule: Schedule,
        unconfirmed: UnconfirmedFetches,
        executor: Executor,
        start_gate: StartGate,
        rejoined: Callable[[], object],
        start_soon: Callable[..., object],
    ) -> None:
        self._line = line
        self._identity = identity
        self._lease = lease
        self._heartbeat = heartbeat
        self._inbox = inbox
        self._schedule = schedule
        self._unconfirmed = unconfirmed
        self._executor = executor
        self._start_gate = start_gate
        self._observers = observers
        self._outage = Outage("registration", observers.emit)
        self._start_soon = start_soon
        self._is_open = False
        self._next_id = 0  # That of the worker once it has learned the ids of its tasks.
        self._dead_ids = {0}  # Those that others declared dead before it had them; and 0, which is none.
        self.registered = anyio.Event()
        self._rejoined = rejoined

    def open(self) -> None:
        """From now on it can come back by itself: tasks may be started."""
        self._is_open = True
        if not self._identity.worker_id:
            self._start_soon(self._join_again)

    async def join(self) -> None:
        """Become known, then learn the ids of the tasks: names that a known worker uses are never collected."""
        while not self._identity.worker_id:
            if self._next_id in self._dead_ids:
                self._next_id = await self._heartbeat.register()
            await self._learn()
            if self._next_id not in self._dead_ids:  # Else it was declared dead meanwhile.
                self._identity.worker_id, self._next_id = self._next_id, 0
        self.registered.set()

    async def learn_the_rest(self) -> None:
        """Ask for tasks that are not known yet: another open transaction has just stored their names, or locks them."""
        if names := ", ".join(self._identity.nameless):
            said = f"tasks {names} are not taken yet: an open transaction has just stored or locked their names"
            self._observers.emit(MaintenanceFailed(error=said))
        while self._identity.nameless:
            await anyio.sleep(LEARN_S)
            try:
                await self._learn()
                self._outage.over()
            except AsyncqError as error:
                self._observers.emit(MaintenanceFailed(error=str(error), failures=self._outage.failed()))
            self._schedule.wake()

    async def _learn(self) -> None:
        identity = self._identity
        ids = await store.task_ids(self._line, list(identity.registry))
        # First, since the fetcher takes the jobs of a task as soon as its id is known.
        by = f"worker {identity.worker_id or self._next_id}"
        declared = await store.declare_limits(self._line, identity.registry.declaration, by)
        kept = [
            store.KeptTask(task_id, identity.keep_s(name) or None, identity.registry[name].keeps_payload)
            for task_id, name in ids.items()
        ]
        late = await store.keep_tasks(self._line, kept)
        identity.learn({task: name for task, name in ids.items() if task not in late and name not in declared.late})
        for limit in declared.changed:
            changed = LimitChanged(limit=limit.name, before=limit.before, after=limit.after, by=by, was_by=limit.was_by)
            self._observers.emit(changed)

    def questioned(self) -> None:
        """Start nothing before the next beat: others ask whether this worker is alive, or have declared it dead."""
        self._lease.end()
        self._heartbeat.questioned()

    def gave_up(self, worker_id: int, reason: str) -> None:
        """End the runs, because others may rescue their jobs soon. Until then the claims are this worker's."""
        if not worker_id or worker_id != self._identity.worker_id:
            return
        running, lease = len(self._executor.running), self._lease
        event = LeaseInDoubt(
            worker_id=worker_id, running=running, reason=reason, silent_s=lease.silent_s, lease_s=lease.length_s
        )
        self._observers.emit(event)
        self._let_go("the worker could not prove that it lives")

    def regained(self) -> None:
        """Go on after a beat that proved that the worker is alive."""
        self._schedule.wake()

    def lost(self, worker_id: int) -> None:
        """End the runs after a rescue: their ends would be refused. The worker needs a new id."""
        if not self._identity.worker_id:
            self._dead_ids.add(worker_id)
        if not worker_id or worker_id != self._identity.worker_id:
            return  # A beat from before or during a new registration.
        self._observers.emit(WorkerLost(worker_id=worker_id, running=len(self._executor.running)))
        self._let_go("the worker was declared dead")
        self._identity.worker_id = 0
        self.registered = anyio.Event()
        if self._is_open:
            self._start_soon(self._join_again)

    def _let_go(self, reason: str) -> None:
        self._inbox.return_all(reason)
        self._start_gate.refuse()
        self._executor.cancel_all()

    async def leave(self) -> None:
        """Be forgotten, and leave no claim; a connection that was lost on the way is tried again, a few times."""
        for tries in range(1, LEAVE_TRIES + 1):
            try:
                await self.registered.wait()
                await self._unconfirmed.give_back()
                await store.remove(self._line, self._identity.worker_id)
                return
            except StoreUnavailable:
                if tries == LEAVE_TRIES:
                    raise
                await anyio.sleep(backoff_s(tries, FIRST_RETRY_S, AGAIN_S))

    async def _join_again(self) -> None:
        while not self._identity.worker_id:
            try:
                await self.join()
            except AsyncqError as error:
                if self._heartbeat.has_ended:
                    self.registered.set()
                    return
                self._observers.emit(MaintenanceFailed(error=str(error), failures=self._outage.failed()))
                await anyio.sleep(AGAIN_S)
        self._outage.over()
        self._schedule.wake()
        self._rejoined()
        await self.learn_the_rest()
