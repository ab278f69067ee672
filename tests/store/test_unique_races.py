"""An add under a unique policy meets each possible change of the job that it conflicts with.

Each change is held open in a transaction, the add arrives and waits, and the change commits or rolls back. At READ
COMMITTED the result is that of one after the other. At the other levels a loser may get 40001: it has changed nothing,
and the same call works afterwards. No answer names a job that does not exist, and no job is added beside one that
conflicts.
"""

import itertools
import random
from typing import Any

import anyio
import asyncpg
import pytest

from asyncq import Client
from tests.support.acts import BY_WORKERS, LEVELS, Act, Adder, is_waiting
from tests.support.jobs import change, complete, fetch, settle_rest
from tests.support.keyed import MODES, Done
from tests.support.session import Session, session
from tests.support.unique import STRATEGIES, ask, ask_all, spec
from tests.support.waiting import wait_until

THOROUGH = True

EMPTY = "; ".join(f"delete from asyncq.{name}" for name in ("_jobs", "_ended_jobs", "_requests", "_key_locks"))
STATES = "select id, asyncq._state(job) as state, rerun::text from asyncq._jobs as job order by id"

DEAD = "array(select id from asyncq._jobs as job where asyncq._is_discarded(job))"
REVIVALS = {
    "a retry": f"select from asyncq.retry_jobs({DEAD})",
    "a reschedule": f"select from asyncq.reschedule_jobs({DEAD}, attempts := 0)",
    "a reschedule with more attempts": f"select from asyncq.reschedule_jobs({DEAD}, max_attempts := 32767)",
}

# The policies of the adds. A rerun is for a singleton that must not miss changes after the start of a run.
WAYS: dict[str, dict[str, Any]] = {
    **{strategy: {"unique": {"on_conflict": strategy}} for strategy in STRATEGIES},
    "rerun": {"singleton": True, "rerun": True},
}
FIRST: dict[str, dict[str, Any]] = {
    **WAYS,
    "request": {"idempotency_key": "k"},
    **{f"job key, {mode}": {"job_key": "k", "mode": mode} for mode in MODES},
}


async def _cancel(sql: Session, _claims: list[asyncpg.Record]) -> None:
    assert 1 == len(await sql.rows("select from asyncq.cancel_jobs(array(select id from asyncq._jobs))"))


async def _retry(sql: Session, _claims: list[asyncpg.Record]) -> None:
    assert 1 == len(await sql.rows(REVIVALS["a retry"]))


async def _reschedule(sql: Session, _claims: list[asyncpg.Record]) -> None:
    assert 1 == len(await sql.rows(REVIVALS["a reschedule"]))


async def _ignore(sql: Session, _claims: list[asyncpg.Record]) -> None:
    await ask(sql, singleton=True)


async def _replace(sql: Session, _claims: list[asyncpg.Record]) -> None:
    await ask(sql, {"on_conflict": "replace"})


async def _force(sql: Session, _claims: list[asyncpg.Record]) -> None:
    await ask(sql, singleton=True, force=True)


# The act -> the state of the job before it, and of the newest job of the key after it has committed.
ACTS: dict[str, tuple[Act, str | None, str | None]] = {
    **BY_WORKERS,
    "the last failure": (BY_WORKERS["the last failure"][0], "active", None),
    "a retry of one that was discarded": (_retry, "discarded", "available"),
    "a reschedule of one that was discarded": (_reschedule, "discarded", "available"),
    "a cancellation": (_cancel, "available", None),
    "a cancellation of a job that runs": (_cancel, "active", None),
    "an ignored add": (_ignore, "available", "available"),
    "a replacing add": (_replace, "available", "available"),
    "a replacing add beside a job that runs": (_replace, "active", "available"),
    "a forced add": (_force, "active", "available"),
    "a first add": (_ignore, None, "available"),
}


async def prepare(sql: Session, state: str | None) -> list[asyncpg.Record]:
    """Store a job that has the key, or one that has just been deleted. Returns its claim if it runs."""
    await sql.execute(EMPTY)
    if state is None:
        await ask(sql, singleton=True)
        await sql.execute("delete from asyncq._jobs")
        return []
    await ask(sql, singleton=True)
    if state == "available":
        return []
    claims = await fetch(sql)
    if state == "discarded":
        await change(sql, claims, attempts=25, error="e")
    return claims


@pytest.fixture(autouse=True)
async def known_task(sql: Session) -> None:
    """Make the task known: adds of one that is new wait for each other."""
    await sql.execute("insert into asyncq._tasks (identifier) values ('t')")


def expected(way: str, state: str | None) -> tuple[str, str | None]:
    """The expected result of an add beside a job in this state: its outcome, and the state of the existing job."""
    if state in (None, "discarded"):
        return "added", None
    if way == "rerun":
        return ("updated" if state == "active" else "deduplicated"), state
    return {"reject": "rejected", "ignore": "deduplicated"}.get(way, "added"), state


def adder_of(sql: Session, level: str, **asked: Any) -> Adder[Done]:
    """An adder of a job that asks for this."""
    return Adder(sql, level, lambda mine: ask(mine, **asked))


async def race(sql: Session, other: Session, act: str, way: str, ends: str, level: str) -> Adder[Done]:
    """Run an add during an open change."""
    do, before, _ = ACTS[act]
    claims = await prepare(sql, before)
    adder = adder_of(other, level, **WAYS[way])
    await adder.add_during(sql, do(sql, claims), ends)
    return adder


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("act", ACTS)
async def test_an_add_waits_for_the_change_of_the_job_that_it_conflicts_with(
    sql: Session, other: Session, act: str, level: str
) -> None:
    """This holds for each strategy and each end of the change.

    Then one job of the key is live, or two if one was forced.
    """
    _, before, after = ACTS[act]
    for way, ends in itertools.product(WAYS, ("commit", "rollback")):
        adder = await race(sql, other, act, way, ends, level)
        refusals = [*adder.refusals]
        await adder.add_again_if_refused()
        rows = await sql.rows(STATES)
        live = [row for row in rows if row["state"] not in ("cancelled", "discarded")]
        done = adder.done
        assert done is not None

        assert (way, ends, *expected(way, after if ends == "commit" else before)) == (
            *(way, ends, done.outcome, done.existing_state),
        )
        assert refusals in ([[]] if level == "read_committed" or ends == "rollback" else [[], ["40001"]])
        assert done.id in [row["id"] for row in live]
        is_forced = act == "a forced add" and ends == "commit" and "replace" not in way
        assert (1 + is_forced, way, ends) == (len(live), way, ends)
        assert (done.outcome == "updated") == any(row["rerun"] for row in live)


class Reviver:
    """Brings all dead jobs back in a transaction of its own; waits if it has to."""

    def __init__(self, sql: Session, level: str, act: str) -> None:
        self._sql = sql
        self._level = level
        self._act = act
        self.revived = 0
        self.refusals: list[str | None] = []

    async def revive(self) -> None:
        """Act, and record the result."""
        try:
            async with self._sql.connection.transaction(isolation=self._level):
                self.revived = len(await self._sql.rows(REVIVALS[self._act]))
        except asyncpg.PostgresError as error:
            self.refusals.append(error.sqlstate)


@pytest.mark.parametrize("ends", ["commit", "rollback"])
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("act", REVIVALS)
@pytest.mark.parametrize("way", WAYS)
async def test_a_discarded_job_is_revived_only_after_an_add_that_has_passed_its_key_lock(
    dsn: str, sql: Session, other: Session, way: str, act: str, level: str, ends: str
) -> None:
    """The add has locked the live jobs. A job that is revived meanwhile might be settled unlike it was judged."""
    await prepare(sql, "discarded")
    keyed = await ask(sql, task="keyed", job_key="k", run_at="2040-01-01T00:00:00Z")
    asked = [spec(**WAYS[way]), spec(task="keyed", job_key="k", run_at="2040-01-01T00:00:00Z")]
    done: list[Done] = []
    reviver = Reviver(sql, level, act)

    async with session(dsn, sql.schema) as third, anyio.create_task_group() as group:
        holding = third.connection.transaction()
        await holding.start()
        await third.rows("select from asyncq._jobs where id = $1 for no key update", keyed.id)
        adding = other.connection.transaction()
        await adding.start()

        async def add() -> None:
            done.extend(await ask_all(other, asked))
            await getattr(adding, ends)()

        group.start_soon(add)
        await wait_until(lambda: is_waiting(third, other), description="the add to wait for the job of the other key")
        group.start_soon(reviver.revive)
        await wait_until(lambda: is_waiting(third, sql), description="the revival to wait for the add")

        assert [] == await fetch(third, token=2)
        await holding.rollback()

    assert ("added", None) == (done[0].outcome, done[0].existing_state)
    refused = level != "read_committed" and ends == "commit"
    assert ["40001"] * refused == reviver.refusals
    assert reviver.revived == (not refused)


@pytest.mark.parametrize("level", LEVELS[1:])
@pytest.mark.parametrize("act", ACTS)
async def test_an_old_snapshot_decides_nothing(sql: Session, other: Session, act: str, level: str) -> None:
    """It shows a job that waits where one runs, none where one is: 40001, and nothing is changed."""
    do, before, _ = ACTS[act]
    for way, asked in WAYS.items():
        claims = await prepare(sql, before)
        transaction = other.connection.transaction(isolation=level)
        await transaction.start()
        await other.rows("select from asyncq._jobs")
        await do(sql, claims)
        done = await sql.rows("select * from asyncq._jobs order by id")
        with pytest.raises(asyncpg.PostgresError) as caught:
            await ask(other, **asked)
        await transaction.rollback()

        assert ("40001", way) == (caught.value.sqlstate, way)
        assert done == await sql.rows("select * from asyncq._jobs order by id")


@pytest.mark.parametrize("level", LEVELS[1:])
async def test_an_old_snapshot_does_not_know_requests(sql: Session, other: Session, level: str) -> None:
    """It would add the job of a request that was made since."""
    async with other.connection.transaction(isolation=level):
        await other.rows("select from asyncq._jobs")
        await ask(sql, idempotency_key="k")
        with pytest.raises(asyncpg.SerializationError):
            async with other.connection.transaction():
                await ask(other, idempotency_key="k")


@pytest.mark.parametrize("ends", ["commit", "rollback"])
@pytest.mark.parametrize("level", LEVELS)
async def test_a_request_waits_for_the_same_one(sql: Session, other: Session, level: str, ends: str) -> None:
    """It returns that job, or is the first one if that was rolled back."""
    adder = adder_of(other, level, idempotency_key="k")
    first = await adder.add_during(sql, ask(sql, idempotency_key="k"), ends)
    refusals = [*adder.refusals]
    await adder.add_again_if_refused()
    done = adder.done
    assert done is not None

    assert (ends == "commit") == (done.id == first.id)
    assert ("deduplicated" if ends == "commit" else "added") == done.outcome
    assert [] == refusals or level != "read_committed"
    assert [done.id] == await sql.values("select id from asyncq._jobs")


async def test_a_job_that_ended_during_the_wait_is_seen_as_ended(sql: Session, other: Session) -> None:
    """It moved from one table to the other, and must not be missed in between."""
    policy = {"states": ["active", "completed"], "on_conflict": "ignore"}
    job = (await ask(sql, policy)).id
    claims = await fetch(sql)
    adder = adder_of(other, "read_committed", unique=policy)
    settled = await adder.add_during(sql, settle_rest(sql, claims, worker=1, done=True), "commit")

    assert {job: "written"} == settled
    assert Done("deduplicated", job, job, "completed") == adder.done


@pytest.mark.parametrize("way", FIRST)
@pytest.mark.parametrize("level", LEVELS)
async def test_of_eight_concurrent_first_adds_one_wins(dsn: str, sql: Session, way: str, level: str) -> None:
    """All snapshots are older. The other adds return the job, replace it, update it, or get 40001."""
    asked = FIRST[way]
    dones: list[Done] = []
    codes: list[str | None] = []
    ready = anyio.Event()
    started: list[int] = []

    async def add() -> None:
        async with session(dsn, sql.schema) as mine:
            transaction = mine.connection.transaction(isolation=level)
            await transaction.start()
            await mine.rows("select from asyncq._jobs")
            started.append(1)
            await ready.wait()
            try:
                dones.append(await ask(mine, **asked))
                await transaction.commit()
            except asyncpg.PostgresError as error:
                codes.append(error.sqlstate)
                await transaction.rollback()

    async with anyio.create_task_group() as group:
        for _ in range(8):
            group.start_soon(add)
        await wait_until(lambda: len(started) == 8, description="eight snapshots")
        ready.set()
    left = await sql.row("select id, revision from asyncq._jobs")
    added = [done.id for done in dones if done.outcome == "added"]

    assert left["id"] in added
    assert 1 == len(added) or "replace" in way
    if "job_key" in asked:
        outcome = "deduplicated" if "unsafe_dedupe" in way else "updated"
        assert ["added", *[outcome] * left["revision"]] == sorted(done.outcome for done in dones)
        assert {left["id"]} == {done.id for done in dones}
    assert (8, {"40001"} if codes else set()) == (len(dones) + len(codes), set(codes))
    assert not codes or level != "read_committed"


@pytest.mark.parametrize("rounds", [4, pytest.param(400, marks=[pytest.mark.slow, pytest.mark.timeout(300)])])
@pytest.mark.parametrize("level", LEVELS)
async def test_one_job_of_a_key_is_live_through_concurrent_calls(
    dsn: str, sql: Session, level: str, rounds: int
) -> None:
    """Eight callers with random strategies and random delays, and a worker that starts and ends what it finds."""
    policy = {"keys": ["type"]}
    bad: list[Any] = []

    async def add(seed: int) -> None:
        rng = random.Random(seed)
        async with session(dsn, sql.schema) as mine:
            for _ in range(rounds):
                await anyio.sleep(rng.random() / 300)
                try:
                    async with mine.connection.transaction(isolation=level):
                        if rng.random() < 0.5:
                            await mine.rows("select from asyncq._jobs")
                        await ask(mine, policy | {"on_conflict": rng.choice(STRATEGIES)})
                        live = await mine.values("""
                            select count(*) from asyncq._jobs
                            where unique_key is not null and cancelled_at is null
                              and not asyncq._is_discarded(_jobs)""")
                        bad.extend(count for count in live if count != 1)
                except asyncpg.SerializationError:
                    bad.extend(["40001"] * (level == "read_committed"))

    async def work(scope: anyio.CancelScope) -> None:
        async with session(dsn, sql.schema) as mine:
            for token in itertools.count(1):
                claims = await fetch(mine, token=token)
                with anyio.CancelScope(shield=True):
                    await complete(mine, claims)
                    await settle_rest(mine, claims, worker=1, done=True)
                if scope.cancel_called:
                    return
                await anyio.sleep(0.001)

    async with anyio.create_task_group() as workers:
        scope = anyio.CancelScope()
        workers.start_soon(work, scope)
        async with anyio.create_task_group() as group:
            for seed in range(8):
                group.start_soon(add, seed)
        scope.cancel()

    assert [] == bad


def claims_of(claims: list[asyncpg.Record]) -> tuple[list[int], list[int]]:
    """Ids and tokens, sorted."""
    pairs = sorted((claim["id"], claim["lock_token"]) for claim in claims)
    return [id_ for id_, _ in pairs], [token for _, token in pairs]


# Waiting


async def test_adds_of_other_keys_do_not_wait(sql: Session, other: Session) -> None:
    """Each key has its own lock. One text as a job key, a subject and an idempotency key counts as three."""
    await sql.execute("set lock_timeout = '100ms'")
    async with other.connection.transaction():
        await ask_all(other, [spec(singleton=True, subject="k"), spec(job_key="k"), spec(idempotency_key="k")])
        done = await ask_all(
            sql,
            [
                spec(singleton=True),
                spec(singleton=True, subject="l"),
                spec(job_key="l"),
                spec(idempotency_key="l"),
                spec(),
            ],
        )

    assert ["added"] * 5 == [one.outcome for one in done]


@pytest.mark.parametrize(
    ("held", "free"),
    [({"singleton": True}, {"singleton": True, "subject": "free"}), ({"job_key": "k"}, {"job_key": "free"})],
    ids=["singleton", "job key"],
)
async def test_a_worker_does_not_wait_for_an_add(
    sql: Session, other: Session, held: dict[str, Any], free: dict[str, Any]
) -> None:
    """A caller's open transaction locks only the job that it checks."""
    jobs = [(await ask(sql, **asked)).id for asked in (held, free)]
    await sql.execute("set lock_timeout = '100ms'")
    async with other.connection.transaction():
        await ask(other, **held)
        claims = await fetch(sql)

    assert jobs[1:] == [claim["id"] for claim in claims]
    assert jobs[:1] == [claim["id"] for claim in await fetch(sql, token=2)]


@pytest.mark.parametrize("way", ["reject", "ignore", "rerun"])
async def test_a_dropped_request_notifies_the_workers_of_the_job_that_it_locked(
    dsn: str, sql: Session, other: Session, way: str
) -> None:
    """A worker that fetched meanwhile has skipped the job, and might sleep until its next poll."""
    await ask(sql, singleton=True)
    heard: list[str] = []
    async with session(dsn, sql.schema) as listener:
        await listener.value("select pg_advisory_lock(asyncq._lock_space(), 0)")
        await listener.connection.add_listener(f"{sql.schema}:jobs", lambda *told: heard.append(told[3]))
        async with other.connection.transaction():
            await ask(other, **WAYS[way])
            claims = await fetch(sql)
        await wait_until(lambda: bool(heard), description="the notification")

    assert ([], [""]) == (claims, heard)


async def test_a_cancelled_add_that_waited_has_added_nothing(
    dsn: str, schema: str, sql: Session, other: Session
) -> None:
    """The statement ends where it waits; the client's connection can be used again."""
    async with Client(dsn, schema=schema, pool_size=1) as client, other.connection.transaction():
        await ask(other, singleton=True)
        for _ in range(3):
            with anyio.move_on_after(0.05) as scope:
                await client.add_job("t", singleton=True)

            assert scope.cancelled_caught
        free = await client.add_job("t", singleton=True, subject="free")
    left = await sql.values("select id from asyncq._jobs order by id")

    assert 2 == len(left)
    assert free.id in left
