"""Workers that were rescued in part, since another transaction held a claim: their row exists, but they are dead."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.support.jobs import NO_PARTITIONS, add, add_many, claimed, fetch
from tests.support.locks import be_up_for_long, end_the_grace, let_go, register
from tests.support.session import Session, session

NO_LOCK = False
AT_A_GLANCE = False
LEVELS = ("read committed", "repeatable read", "serializable")
LONG_AGO = "update asyncq._workers set last_seen = last_seen - lease - interval '1 s' where id = $1"
# The transaction that keeps a rescue from a claim, and the number of jobs, of two, that the rescue takes.
HOLDS = {
    "an administrator": ("select from asyncq.reschedule_jobs(array[$1::bigint], priority => 1)", 1),
    "a transaction of its own": ("select from asyncq._jobs where id = $1 for key share", 1),
}


@pytest.fixture(autouse=True)
async def emptied(own: Session) -> AsyncIterator[None]:
    """At the end no claim is left."""
    yield
    await own.execute("delete from asyncq._jobs; delete from asyncq._workers; " + NO_PARTITIONS)


@asynccontextmanager
async def holding(dsn: str, schema: str, statement: str, job: int, level: str) -> AsyncIterator[None]:
    """An open transaction that has run a statement; it is rolled back at the end."""
    async with session(dsn, schema) as other:
        transaction = other.connection.transaction(isolation=level.replace(" ", "_"))
        await transaction.start()
        await other.rows(statement, *[job] * ("$1" in statement))
        yield
        await transaction.rollback()


async def rescued_in_part(dsn: str, own: Session, hold: str, level: str = LEVELS[0]) -> tuple[int, int]:
    """Let a worker with two jobs be rescued while one is held. Returns the worker, and how many were rescued."""
    worker = await register(own)
    await add_many(own, 2, queue="'q' || i")
    held, _ = [claim["id"] for claim in await fetch(own, worker=worker)]
    await own.rows(LONG_AGO, worker)
    async with holding(dsn, own.schema, HOLDS[hold][0], held, level):
        rescued = await own.run("rescue_jobs", AT_A_GLANCE, None)
    return worker, len(rescued)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("hold", HOLDS)
async def test_a_beat_of_a_worker_that_was_rescued_in_part_is_refused(
    dsn: str, own: Session, hold: str, level: str
) -> None:
    """Otherwise it would continue beside the workers that run its jobs again."""
    worker, rescued = await rescued_in_part(dsn, own, hold, level)
    (held,) = await own.run("lock_worker", worker, await own.value("select pg_backend_pid()"))

    assert HOLDS[hold][1] == rescued
    assert ([], False) == (await own.run("beat", worker, NO_LOCK, [], "{}"), held["holds"])
    assert [worker] == await own.values("select id from asyncq._workers")


async def test_all_agree_that_a_worker_that_was_rescued_in_part_is_dead(dsn: str, own: Session) -> None:
    """It beats within its lease, and is not alive."""
    worker, _ = await rescued_in_part(dsn, own, "an administrator")
    await own.rows("update asyncq._workers set last_seen = clock_timestamp()")
    (job,) = await claimed(own)
    (listed,) = await own.run("list_workers")
    (looked,) = await own.run("watch_workers", 0)
    reasons = await own.rows("select reason, detail from asyncq.explain($1)", job)
    waiting = await own.value("select id from asyncq._jobs where locked_by is null")
    why = await own.values("select reason from asyncq.explain($1)", waiting)

    assert ("dead", True, False) == (
        listed["state"],
        looked["dead"],
        await own.value("select asyncq._is_live(worker) from asyncq._workers as worker"),
    )
    assert f"was taken by worker {worker}, which is not alive" in reasons[0]["detail"]
    assert ["no_worker"] == why


async def test_a_dead_worker_that_leaves_keeps_its_row_until_its_claims_are_rescued(dsn: str, own: Session) -> None:
    """Without a row only a thorough rescue would find the claims."""
    worker, _ = await rescued_in_part(dsn, own, "an administrator")
    removed = await own.run("remove_worker", worker)
    back = await own.run("rescue_jobs", AT_A_GLANCE, None)

    assert ([], 1) == (removed, len(back))
    assert ([], []) == (await claimed(own), await own.rows("select from asyncq._workers"))


async def test_the_rest_of_a_dead_worker_is_rescued_although_it_has_its_lock_again(dsn: str, own: Session) -> None:
    """A worker takes its lock before it beats, and the beat is refused."""
    worker, _ = await rescued_in_part(dsn, own, "an administrator")
    await own.rows("update asyncq._workers set last_seen = clock_timestamp()")
    await let_go(own, worker)
    async with session(dsn, own.schema) as other:
        await other.rows("select pg_advisory_lock(asyncq._lock_space(), $1)", worker)
        back = await own.run("rescue_jobs", AT_A_GLANCE, None)

    assert (1, []) == (len(back), await claimed(own))


async def test_an_administrator_unlocks_the_rest_of_a_dead_worker(dsn: str, own: Session) -> None:
    """Claims of any other worker are unlocked in the same way."""
    worker, _ = await rescued_in_part(dsn, own, "an administrator")
    touched = await own.rows("select from asyncq.force_unlock_workers(array[$1])", str(worker))

    assert (1, []) == (len(touched), await claimed(own))
    assert [] == await own.rows("select from asyncq._workers")


async def test_a_worker_that_was_rescued_in_part_after_the_grace_is_dead_too(dsn: str, own: Session) -> None:
    """Its lease is not over, so a beat would have cleared the doubt."""
    await be_up_for_long(own.connection, own.schema)
    async with session(dsn, own.schema) as late, session(dsn, own.schema) as other:
        worker = await register(late)
        held, _ = await add(own), await add(own)
        await fetch(own, worker=worker)
        await let_go(late, worker)
        await own.run("watch_workers", 0)
        await end_the_grace(own, worker)
        async with other.connection.transaction():
            await other.rows("select from asyncq._jobs where id = $1 for key share", held)
            rescued = await own.run("rescue_jobs", AT_A_GLANCE, None)

        assert (1, []) == (len(rescued), await late.run("beat", worker, NO_LOCK, [], "{}"))


async def test_a_transaction_completes_its_job_although_its_worker_is_dead(dsn: str, own: Session) -> None:
    """No other worker can run the job while the transaction has the claim."""
    worker = await register(own)
    kept, _ = await add(own), await add(own)
    await fetch(own, worker=worker, token=7)
    await own.rows(LONG_AGO, worker)
    async with session(dsn, own.schema) as run, run.connection.transaction():
        (begun,) = await run.run("lock_claim", worker, kept, 7)
        rescued = await own.run("rescue_jobs", AT_A_GLANCE, None)
        ending = await run.value("select asyncq._complete_claim($1, $2, 7, $3)", worker, kept, begun["xid"])

    assert ("locked", 1, "completed") == (begun["state"], len(rescued), ending)
    assert [] == await own.rows("select from asyncq._jobs where id = $1", kept)
