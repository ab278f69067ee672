"""A rescue takes no claim of a live worker, whatever happens during it."""

from asyncq.store import workers as store
from asyncq.store.database import ReconnectingConnection
from tests.support.gate import Gate
from tests.support.jobs import add, change, claimed, fetch, locked_queues
from tests.support.session import Session

RESCUE = "select job_id from asyncq._rescue_jobs(false)"
NAME_ALL = """
update asyncq._workers set started_claims = array(
  select id || '/' || lock_token from asyncq._jobs where locked_by = $1)
where id = $1"""
RECORDED = "select job_id, number, kind, worker_id from asyncq.attempts"
RESCUE_ALL = "select job_id from asyncq._rescue_jobs(true)"


async def register(sql: Session, *, silent_s: float = 0.0) -> int:
    """Register a worker with a lease of 30 seconds that was silent for so long. Returns its id."""
    (row,) = await sql.run("register_worker", 30.0, 1, 100, "h", [], 0, None, [])
    await sql.rows(
        "update asyncq._workers set last_seen = last_seen - make_interval(secs => $1) where id = $2",
        silent_s,
        row["id"],
    )
    return row["id"]


async def test_a_claim_of_a_worker_that_started_during_the_rescue_stays(
    gate: Gate, guarded: Session, sql: Session, other: Session
) -> None:
    """The dead worker returns its job at the last moment, and a new one claims it."""
    dead = await register(sql, silent_s=31.0)
    job = await add(sql, queue="q")
    claims = await fetch(sql, worker=dead)
    newcomers: list[int] = []
    await guarded.rows("select from asyncq._rescue_jobs(false) where false")

    async def change_hands() -> None:
        await change(other, claims, worker=dead)
        newcomers.append(await register(other))
        await fetch(other, worker=newcomers[0], token=2)

    rescued = await gate.during(guarded.rows(RESCUE), change_hands())

    assert ([], [job], ["q"]) == (rescued, await claimed(sql), await locked_queues(sql))
    assert newcomers == await sql.values("select locked_by from asyncq._all_jobs()")


async def test_two_rescues_at_once_count_one_attempt(
    gate: Gate, guarded: Session, sql: Session, other: Session
) -> None:
    """The second one does all the work when the first has seen the claims, and not yet locked them."""
    job = await add(sql, queue="q")
    await fetch(sql, worker=77)
    await guarded.rows("select from asyncq._rescue_jobs(true) where false")
    second: list[int] = []

    async def rescue_too() -> None:
        second.extend(row["job_id"] for row in await other.rows(RESCUE_ALL))

    first = await gate.during(guarded.rows(RESCUE_ALL), rescue_too())

    assert ([job], []) == (second, first)
    assert 0 == await sql.value("select attempts from asyncq._jobs")


async def test_rescued_jobs_are_returned_with_their_worker(line: ReconnectingConnection, sql: Session) -> None:
    """The event and the log need it."""
    dead = await register(sql, silent_s=31.0)
    job = await add(sql, max_attempts=1)
    await fetch(sql, worker=dead)
    await sql.execute(
        "update asyncq._workers set started_claims = array(select id || '/' || lock_token from asyncq._jobs)"
    )

    assert [store.Rescued(job, dead, 1, 1, ran=True)] == await store.rescue_jobs(line, thorough=False)
    assert [] == await store.rescue_jobs(line, thorough=True)


async def test_a_lost_attempt_is_recorded_once_though_two_rescues_meet(
    gate: Gate, guarded: Session, sql: Session, other: Session
) -> None:
    """The first one holds the dead worker, and waits before it reads the claims. A later one finds nothing."""
    dead = await register(sql, silent_s=31.0)
    job = await add(sql)
    await fetch(sql, worker=dead)
    await sql.rows(NAME_ALL, dead)
    await guarded.rows("select from asyncq._rescue_jobs(false) where false")
    second: list[int] = []

    async def rescue_too() -> None:
        second.extend(row["job_id"] for row in await other.rows(RESCUE_ALL))

    first = await gate.during(guarded.rows(RESCUE), rescue_too())
    third = await other.rows(RESCUE_ALL)

    assert ([job], [], []) == ([row["job_id"] for row in first], second, third)
    assert [(job, 1, "lost", dead)] == [tuple(row) for row in await sql.rows(RECORDED)]


async def test_an_attempt_that_is_settled_during_the_rescue_is_recorded_as_it_was_settled(
    gate: Gate, guarded: Session, sql: Session, other: Session
) -> None:
    """The worker was only slow: it writes the failure before the rescue locks the claim."""
    dead = await register(sql, silent_s=31.0)
    job = await add(sql)
    claims = await fetch(sql, worker=dead)
    await sql.rows(NAME_ALL, dead)
    await guarded.rows("select from asyncq._rescue_jobs(false) where false")
    settled = change(other, claims, worker=dead, attempts=1, error="e", kind="failed")

    assert [] == await gate.during(guarded.rows(RESCUE), settled)
    assert [(job, 1, "failed", dead)] == [tuple(row) for row in await sql.rows(RECORDED)]
