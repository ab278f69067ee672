"""Faults that the chaos suite injects into workers, connections, clocks and the server; a seed decides their order."""

import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import anyio
import anyio.to_thread
import asyncpg
from anyio.abc import TaskGroup

from asyncq import StoreError
from asyncq.server import Server
from asyncq.testing import MovableClock
from tests.crash.chaos_worker import LEASE_S
from tests.crash.crew import Crew, excused
from tests.crash.watch import ask
from tests.support.faults import BOTH

# What happens, and how often in one deck.
DECK = {
    "kill": 4,
    "stop": 3,
    "stall": 1,
    "hold": 3,
    "terminate": 3,
    "crash": 2,
    "restart": 1,
    "set_clock": 4,
    "move_on": 2,
    "late": 3,
    "silence": 2,
    "half_open": 2,
    "slow": 1,
    "cut_at_commit": 5,
}
UNLOCKED_S = 2.1  # longer than the grace and the watch of another worker, shorter than the rest of the lease.
# The faults by which workers are rescued in part; no crashes, since a free lock proves nothing just after them.
HOLDING_DECK = {"hold": 6, "stop": 1, "stall": 1, "kill": 1}
LEVELS = ("read_committed", "repeatable_read", "serializable")
# Some jobs of a process, for a statement of another session to lock.
CLAIMS = """
select id from asyncq._jobs
where locked_by in (select id from asyncq._workers where pid = $1 and died_at is null) order by random() limit $2
"""
HOLDS = (
    f"select from asyncq._jobs where id in ({CLAIMS}) for update skip locked",
    f"select from asyncq._jobs where id in ({CLAIMS}) for key share skip locked",
    f"select from asyncq.reschedule_jobs(array({CLAIMS}), priority => 1)",
)
# The connection that holds the lock of a process which has just beaten ends.
UNLOCK = """
select pg_terminate_backend(held.pid)
from asyncq._workers as worker
join pg_locks as held
  on held.locktype = 'advisory' and held.classid = asyncq._lock_space()::oid and held.objid = worker.id::oid
where worker.pid = $1 and held.granted and worker.last_seen > clock_timestamp() - interval '0.15 s'
"""
NOT_READY = (OSError, StoreError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)


class Blows:
    """Inject faults.

    Args:
        server: The server; it is killed.
        schema: The schema whose clock is moved forward.
        crew: The workers.
        chance: The source of all random choices.
        group: Runs faults that last while others begin.
        deck: How often each fault occurs in one shuffled deck.

    Attributes:
        dealt: The kinds of the injected faults, in order.
        hits: How many faults had an effect, by kind.
        moves: From when on the schema's clock was by how much ahead of the machine's, in nanoseconds.
    """

    def __init__(
        self,
        server: Server,
        schema: str,
        crew: Crew,
        chance: random.Random,
        group: TaskGroup,
        deck: Mapping[str, int],
    ) -> None:
        self._server = server
        self._clock = MovableClock(server.dsn, schema)
        self._crew = crew
        self._chance = chance
        self._group = group
        self._cards = self._deal(deck)
        self._one_hold = anyio.Lock()
        self._ahead = timedelta()
        self.dealt: list[str] = []
        self.hits: Counter[str] = Counter()
        self.moves: list[tuple[int, int]] = []

    def _deal(self, deck: Mapping[str, int]) -> Iterator[str]:
        """Each kind occurs in each deck."""
        while True:
            cards = [kind for kind, times in deck.items() for _ in range(times)]
            self._chance.shuffle(cards)
            yield from cards

    async def next(self) -> None:
        """Inject the next fault; long ones continue in the background."""
        kind = next(self._cards)
        self.dealt.append(kind)
        blow: Callable[[], Any] = getattr(self, f"_{kind}")
        await blow()

    # Processes

    async def _kill(self) -> None:
        """Kill a worker process and start a new one, as a supervisor does."""
        if (place := self._crew.some()) is not None:
            await self._crew.kill(place)
            self.hits["kill"] += 1

    async def _stop(self) -> None:
        """Pause a worker process for less than its grace."""
        if (place := self._crew.some()) is not None:
            await self._crew.pause(place, self._chance.uniform(0.05, 0.4))
            self.hits["stop"] += 1

    async def _stall(self) -> None:
        """Pause a worker process for longer than its lease, so that others take over."""
        self._group.start_soon(self._stall_on)

    async def _stall_on(self) -> None:
        if (place := self._crew.some()) is not None:
            self.hits["stall"] += 1
            spans = self._crew.fates[place.name].stalled
            with excused(spans):
                await self._crew.pause(place, LEASE_S * 2)

    async def _hold(self) -> None:
        """A worker is declared dead while another transaction holds some of its jobs, so that the rescue is partial.

        Either the process is stopped for longer than its lease, or the connection that holds its lock ends, and the
        process is stopped for longer than the grace.
        """
        self._group.start_soon(self._hold_on)

    async def _hold_on(self) -> None:
        async with self._one_hold:  # One worker has to remain for the rescue.
            await self._hold_one()

    async def _hold_one(self) -> None:
        place = self._crew.some()
        if place is None or place.process is None:
            return
        statement, level = self._chance.choice(HOLDS), self._chance.choice(LEVELS)
        jobs, number, loses_lock = self._chance.randint(1, 3), place.process.pid, self._chance.random() < 0.7
        try:
            connection = await asyncpg.connect(self._server.dsn)
        except NOT_READY:
            return
        try:
            async with connection.transaction(isolation=level):
                await connection.fetch(statement, number, jobs)
                with excused(self._crew.fates[place.name].stalled):
                    if loses_lock:
                        await self._unlock(number)
                    if place.process is None or place.process.pid != number:
                        return  # It was killed, and another process is in its place.
                    await self._crew.pause(place, UNLOCKED_S if loses_lock else 1.5 * LEASE_S)
                self.hits[f"hold, {level}"] += 1
                await anyio.sleep(0.5)
        except NOT_READY:
            return  # The server was away, or another session has changed the job.
        finally:
            connection.terminate()

    async def _unlock(self, number: int) -> None:
        connection = await asyncpg.connect(self._server.dsn)
        try:
            for _ in range(100):
                if await connection.fetch(UNLOCK, number):
                    return
                await anyio.sleep(0.02)
        finally:
            connection.terminate()

    # Clocks

    async def _set_clock(self) -> None:
        """The clock of a process jumps by minutes; where the monotonic clock goes along, it comes back a moment later.

        A monotonic clock that goes back is that of a process that was kept from running: its timers do not ring.
        """
        place = self._crew.near
        if (clock := place.clock) is None:
            return
        minutes = timedelta(minutes=self._chance.uniform(1, 10))
        self.hits["clock"] += 1
        if not clock.moves_monotonic:
            clock.move_to(self._chance.choice([minutes, -minutes, timedelta()]))
        elif self._chance.random() < 0.5:
            clock.move_to(clock.by + minutes)
        else:
            self._group.start_soon(self._set_back, minutes, self._chance.uniform(0.5, 2) * LEASE_S)

    async def _set_back(self, by: timedelta, seconds: float) -> None:
        place = self._crew.near
        assert place.clock is not None
        spans = self._crew.fates[place.name].stalled
        with excused(spans):
            place.clock.move_to(place.clock.by - by)
            try:
                await anyio.sleep(seconds)
            finally:
                place.clock.move_to(place.clock.by + by)

    async def _move_on(self) -> None:
        """Move the schema's clock forward: jobs become due earlier, and slots of recurring items pass."""
        ahead = self._ahead + timedelta(seconds=self._chance.uniform(30, 200))
        since = time.time_ns()
        self._ahead = ahead
        self.moves.append((since, ahead // timedelta(microseconds=1) * 1000))
        for _ in range(20):
            try:
                by = ahead - await self._is_ahead()
                await self._clock.move(by)
                self.hits["move on"] += 1
                return
            except NOT_READY:
                await anyio.sleep(0.05)

    async def _is_ahead(self) -> timedelta:
        connection = await asyncpg.connect(self._server.dsn)
        try:
            return await connection.fetchval("select asyncq.now() - pg_catalog.now()")
        finally:
            connection.terminate()

    # The network

    async def _late(self) -> None:
        """Delay the data of one direction or both; then deliver it, or lose the connections."""
        _, link = self._crew.some_link()
        link.hold("", *self._chance.choice([BOTH, BOTH[:1], BOTH[1:]]))
        self.hits["late"] += 1
        seconds, end = self._chance.uniform(0.05, 0.4), self._chance.choice([link.deliver, link.lose])
        try:
            await anyio.sleep(seconds)
        finally:
            end("")

    async def _silence(self) -> None:
        """The same for longer than the lease."""
        self._group.start_soon(self._silent)

    async def _silent(self) -> None:
        place, link = self._crew.some_link()
        spans, end = self._crew.fates[place.name].cut_off, self._chance.choice([link.deliver, link.lose])
        link.hold("", *self._chance.choice([BOTH, BOTH[:1], BOTH[1:]]))
        self.hits["silence"] += 1
        with excused(spans):
            try:
                await anyio.sleep(self._chance.uniform(1.1, 1.8) * LEASE_S)
            finally:
                end("")

    async def _half_open(self) -> None:
        """The open connections are dead, and neither side knows; new ones work."""
        self._group.start_soon(self._half_opened)

    async def _half_opened(self) -> None:
        place, link = self._crew.some_link()
        self.hits["half open"] += 1
        spans = self._crew.fates[place.name].cut_off
        link.hold_open("")
        with excused(spans):
            try:
                await anyio.sleep(self._chance.uniform(1, 3) * LEASE_S)
            finally:
                link.lose("")

    async def _slow(self) -> None:
        """Everything takes longer."""
        self._group.start_soon(self._slowed)

    async def _slowed(self) -> None:
        _, link = self._crew.some_link()
        self.hits["slow"] += 1
        link.delay("", self._chance.uniform(0.01, 0.08))
        try:
            await anyio.sleep(self._chance.uniform(0.5, 2))
        finally:
            link.delay("", 0)

    async def _cut_at_commit(self) -> None:
        """The next transaction of a handler is cut at its COMMIT: before it, at once, or before the answer."""
        _, link = self._crew.some_link()
        link.cut_at_commit("handlers", self._chance.choice(["before", "sent", "after"]))

    # The server

    async def _terminate(self) -> None:
        """The server ends some connections, or all."""
        share = self._chance.choice([0.2, 0.5, 1.0])
        began = time.monotonic_ns()
        try:
            connection = await asyncpg.connect(self._server.dsn)
        except NOT_READY:
            return  # It has just been started, and is not ready.
        try:
            rows = await connection.fetch(
                "select pid from pg_stat_activity where application_name like 'asyncq %' order by pid"
            )
            chosen = [row["pid"] for row in rows if self._chance.random() < share]
            await connection.execute("select pg_terminate_backend(pid) from unnest($1::int[]) as pid", chosen)
            self.hits["terminate"] += 1
        finally:
            connection.terminate()
            self._note_cut(began)

    async def _crash(self) -> None:
        """Kill the server, and restart it."""
        self.hits["crash"] += 1
        with anyio.CancelScope(shield=True):
            async with self._away():
                await anyio.to_thread.run_sync(self._server.kill)
                await anyio.sleep(self._chance.choice([0.0, 0.2, 1.0]))
                await anyio.to_thread.run_sync(self._server.restart)

    async def _restart(self) -> None:
        """The server is restarted in order."""
        self.hits["restart"] += 1
        async with self._away():
            await anyio.to_thread.run_sync(self._server.restart)

    @asynccontextmanager
    async def _away(self) -> AsyncIterator[None]:
        """Stop the server for about a lease; on a busy machine the first worker that returns takes over."""
        began = time.monotonic_ns()
        yield
        await ask(self._server.dsn, "select 1")
        ended = self._note_cut(began)
        if ended - began > LEASE_S / 2 * 1e9:
            self.hits["long outage"] += 1
            for place in self._crew.places:
                self._crew.fates[place.name].stalled.append((began, ended))

    def _note_cut(self, began: int) -> int:
        """Connections of any worker were cut from then until now; returns when that is."""
        ended = time.monotonic_ns()
        for place in self._crew.places:
            self._crew.fates[place.name].cut.append((began, ended))
        return ended
