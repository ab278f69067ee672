"""Whole lives of jobs by chance, against a model in memory: added, fetched, settled, rescued, removed, cancelled.

After each act the table is what the model says, and no law of the store is broken. Hypothesis shortens what fails.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import asyncpg
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from asyncq.store.statements import render
from tests.support.jobs import add, complete, fetch, settle_rest
from tests.support.laws import LAWS
from tests.support.marked import CANCEL
from tests.support.session import Session
from tests.support.soaking import TIMES

ATTEMPTS = 2
THOROUGH = True
REGISTER = """
insert into asyncq._workers (lease, pid, concurrency, host, tasks)
values (interval '30 s', 1, 100, 'h', array[]::text[]) returning id"""
DIE = """
update asyncq._workers
set last_seen = now() - interval '1 day',
  started_claims = array(select id || '/' || lock_token from asyncq._all_jobs() where locked_by = $1)
where id = $1
"""
HISTORY = "select id, state, result::text from asyncq._ended_jobs order by id"
KEYED = "select id from asyncq.add_job('t', queue_name => $1, job_key => $2, max_attempts => $3)"
ROWS = """
select id, key, queue, attempts, locked_by, cancelled_at is not null as cancelled from asyncq._all_jobs() order by id
"""


@dataclass
class Life:
    """The state of a stored job in the model."""

    key: str | None
    queue: str | None
    attempts: int = 0
    worker: int | None = None
    cancelled: bool = False

    @property
    def waits(self) -> bool:
        """Whether a fetch may take it."""
        return self.worker is None and self.attempts < ATTEMPTS

    def give_key_away(self) -> None:
        """A newer request gets the key; a run that continues is the last attempt."""
        self.key, self.attempts = None, ATTEMPTS - (self.worker is not None)

    def lose_key(self) -> None:
        """It was removed while it ran: it is not tried again, however it ends."""
        self.key, self.attempts = None, ATTEMPTS


class World:
    """The database and the model, side by side."""

    def __init__(self, sql: Session) -> None:
        self._sql = sql
        self._token = 0
        self.workers: list[int] = []
        self.lives: dict[int, Life] = {}
        self.claims: dict[int, asyncpg.Record] = {}
        self.spent: list[tuple[int, asyncpg.Record]] = []
        self.ended: dict[int, str] = {}

    async def add(self, queue: str | None, key: str | None) -> None:
        """Add a job; one that waits with this key is replaced."""
        holder = next((id_ for id_, life in self.lives.items() if key and life.key == key), None)
        if key is None:
            job = await add(self._sql, queue=queue, max_attempts=ATTEMPTS)
        else:
            job = await self._sql.value(KEYED, queue, key, ATTEMPTS)
        if holder is not None and self.lives[holder].waits:
            assert holder == job
        else:
            assert job not in self.lives
            if holder is not None:
                self.lives[holder].give_key_away()
        self.lives[job] = Life(key, queue)

    async def fetch(self, place: int, most: int, packs: bool) -> None:
        """Let a worker take jobs, in a batch if asked: the first ones, and of each queue one, if none of it runs."""
        worker = self.workers[place]
        self._token += 1
        expected = {*self._next(most)}
        form = "batched" if packs else "rows"
        claims = await fetch(self._sql, most, worker=worker, token=self._token, form=form)

        assert expected == {claim["id"] for claim in claims}
        for claim in claims:
            self.claims[claim["id"]] = claim
            self.lives[claim["id"]].worker = worker

    def _next(self, most: int) -> list[int]:
        busy = {life.queue for life in self.lives.values() if life.worker is not None and life.queue}
        found: list[int] = []
        for id_, life in sorted(self.lives.items()):
            if life.waits and life.queue not in busy:
                found.append(id_)
                busy |= {life.queue} - {None}
        return found[:most]

    async def settle(self, place: int, most: int, failures: int | None) -> None:
        """Let a worker write what became of some of its jobs: completed, failed, or returned."""
        worker = self.workers[place]
        ids = [id_ for id_, life in sorted(self.lives.items()) if life.worker == worker][:most]
        claims = [self.claims.pop(id_) for id_ in ids]
        if failures is None:
            written = await complete(self._sql, claims, worker, kept=True)
            claims_left = [claim for claim in claims if claim["id"] not in written]
        else:
            written, claims_left = [], claims
        endings = await settle_rest(
            self._sql, claims_left, done=failures is None, worker=worker, attempts=failures or 0
        )
        cancelled = {id_ for id_ in ids if self.lives[id_].cancelled}

        assert {*ids} == {*written, *endings}
        assert {id_: "cancelled" if id_ in cancelled else "written" for id_ in endings} == endings
        assert failures is not None or cancelled == {*endings}
        self.spent += [(worker, claim) for claim in claims]
        for id_ in ids:
            self._let_go(id_, failures)

    def _let_go(self, id_: int, failures: int | None) -> None:
        life = self.lives[id_]
        if life.cancelled or failures is None:
            self._end(id_, "cancelled" if life.cancelled else "completed")
        else:
            life.worker, life.attempts = None, min(life.attempts + failures, ATTEMPTS)

    async def die(self, place: int) -> None:
        """Let a worker die and be rescued, and start another one; its old claims are lost."""
        worker = self.workers[place]
        held = [id_ for id_, life in self.lives.items() if life.worker == worker]
        await self._sql.rows(DIE, worker)
        rescued = await self._sql.run("rescue_jobs", not THOROUGH, None)

        assert {id_ for id_ in held if not self.lives[id_].cancelled} == {row["job_id"] for row in rescued}
        for id_ in held:
            self.spent.append((worker, self.claims.pop(id_)))
            self._let_go(id_, 1)
        self.workers[place] = await self._sql.value(REGISTER)

    async def settle_late(self) -> None:
        """Let workers settle what they held once, and dead ones return it: nothing of it counts."""
        for worker, claim in self.spent:
            assert [] == await complete(self._sql, [claim], worker)
            for done in (False, True):
                assert {claim["id"]: "lost"} == await settle_rest(self._sql, [claim], done=done, worker=worker)
            if worker not in self.workers:
                assert [] == await self._sql.run("return_lost", worker, [claim["lock_token"]])

    async def remove(self, key: str) -> None:
        """Remove the job of a key; one that runs is detached."""
        await self._sql.run("remove_job", key)
        for id_, life in [*self.lives.items()]:
            if life.key == key and life.worker is None:
                self._end(id_, "cancelled" if life.waits else "discarded")
            elif life.key == key:
                life.lose_key()

    async def cancel(self, place: int) -> None:
        """Cancel a job: at once if it waits, by its worker if it runs. Discarded jobs stay."""
        if not self.lives:
            return
        id_ = sorted(self.lives)[place % len(self.lives)]
        life = self.lives[id_]
        await self._sql.rows(CANCEL, id_)
        if life.worker is not None:
            # For everybody else it is over: its key is free.
            life.cancelled, life.key = True, None
        elif life.waits:
            self._end(id_, "cancelled")

    def _end(self, id_: int, state: str) -> None:
        del self.lives[id_]
        self.ended[id_] = state

    async def retry(self, place: int) -> None:
        """Retry a failed job."""
        if not self.lives:
            return
        id_ = sorted(self.lives)[place % len(self.lives)]
        await self._sql.rows("select from asyncq.retry_jobs(array[$1::bigint])", id_)
        if self.lives[id_].worker is None:
            self.lives[id_].attempts = 0

    async def stored(self) -> list[tuple[object, ...]]:
        """The table's rows."""
        return [tuple(row) for row in await self._sql.rows(ROWS)]

    async def history(self) -> dict[int, str]:
        """The ended jobs that are kept; those that completed have their results."""
        rows = await self._sql.rows(HISTORY)
        assert [str(row["id"]) for row in rows if row["result"]] == [row["result"] for row in rows if row["result"]]
        return {row["id"]: row["state"] for row in rows}

    def rows(self) -> Iterator[tuple[object, ...]]:
        """The rows that the table has to hold."""
        for id_, life in sorted(self.lives.items()):
            yield id_, life.key, life.queue, life.attempts, life.worker, life.cancelled


QUEUES = st.sampled_from([None, None, "a", "b"])
KEYS = st.sampled_from([None, None, "k", "l"])
WORKERS = st.integers(0, 1)
PLACES = st.integers(0, 5)
SOME = st.integers(1, 4)
# An act is the name of a method of World, with its arguments.
ADD = st.tuples(st.just("add"), QUEUES, KEYS)
FETCH = st.tuples(st.just("fetch"), WORKERS, SOME, st.booleans())
SETTLE = st.tuples(st.just("settle"), WORKERS, SOME, st.sampled_from([None, 0, 1]))
OTHERS = [
    st.tuples(st.just("die"), WORKERS),
    st.tuples(st.just("settle_late")),
    st.tuples(st.just("remove"), st.sampled_from(["k", "l"])),
    st.tuples(st.just("cancel"), PLACES),
    st.tuples(st.just("retry"), PLACES),
]
ACTS = st.lists(st.one_of(ADD, ADD, FETCH, FETCH, SETTLE, *OTHERS), min_size=15, max_size=60)
CLEAN = """
delete from asyncq._jobs;
delete from asyncq._batches;
delete from asyncq._partitions;
delete from asyncq._wakeups;
delete from asyncq._workers;
delete from asyncq._ended_jobs;
select asyncq._store_tasks('{t}');
update asyncq._tasks set keep_s = 3600;
"""


@settings(
    max_examples=20 if TIMES == 1 else 10 * TIMES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(acts=ACTS)
async def test_random_lives_agree_with_the_model(sql: Session, acts: list[tuple[str, object]]) -> None:
    """Every act may follow every other one."""
    await sql.execute(CLEAN)
    world = World(sql)
    world.workers = [await sql.value(REGISTER) for _ in range(2)]
    laws = await sql.connection.prepare(render(LAWS, sql.schema))
    for name, *arguments in acts:
        await getattr(world, name)(*arguments)

        assert [*world.rows()] == await world.stored()
        assert [] == await laws.fetch()
        assert world.ended == await world.history()
