"""`_rescue_jobs`: returns the claims of dead workers."""

import pytest

from tests.support.jobs import add, add_many, change, claimed, complete, fetch, locked_queues
from tests.support.locks import be_up_for_long, end_the_grace, let_go, register
from tests.support.marked import ASK_AGAIN, CANCEL, ended, keep
from tests.support.session import Session, session

LONG_AGO = "update asyncq._workers set last_seen = now() - interval '31 s' where id = $1"
NAME_ALL = """
update asyncq._workers set started_claims = array(
  select id || '/' || lock_token from asyncq._all_jobs() where locked_by = $1)
where id = $1"""
NO_LOCK = False
AT_A_GLANCE = False


async def worker(sql: Session, lease_s: float = 30.0) -> int:
    """Register a worker. Returns its id."""
    (row,) = await sql.run("register_worker", lease_s, 1, 100, "h", [], 0, None, [])
    return row["id"]


async def die(sql: Session, worker_id: int) -> None:
    """Let a worker be silent for longer than its lease; its last beat has named all its claims."""
    await sql.rows(NAME_ALL, worker_id)
    await sql.rows(LONG_AGO, worker_id)


async def rescue(sql: Session, *, thorough: bool = False) -> list[tuple[int, int, int, int]]:
    """Rescue. Returns job, worker, attempts and max_attempts of each, in order of the jobs."""
    rows = await sql.run("rescue_jobs", thorough, None)
    return sorted(tuple(row)[:4] for row in rows)


async def workers(sql: Session) -> list[int]:
    """The ids of the workers that have a row."""
    return await sql.values("select id from asyncq._workers order by id")


async def test_a_dead_workers_jobs_are_returned_with_one_attempt_less(sql: Session) -> None:
    """They are due at once. The job may have killed the worker."""
    dead = await worker(sql)
    jobs = [await add(sql, max_attempts=3), await add(sql, queue="q")]
    await fetch(sql, worker=dead)
    await die(sql, dead)
    back = await rescue(sql)
    stored = await sql.rows(
        "select attempts, last_error, run_at = now() as due, updated_at = now() as touched from asyncq._jobs"
    )
    said = f"WorkerLost: worker {dead} was not heard of for longer than its lease"

    assert [(jobs[0], dead, 1, 3), (jobs[1], dead, 1, 25)] == back
    assert [(1, said, True, True)] * 2 == [tuple(row) for row in stored]
    assert ([], [], []) == (await claimed(sql), await locked_queues(sql), await workers(sql))
    assert jobs == [claim["id"] for claim in await fetch(sql, worker=await worker(sql))]


async def test_the_last_attempt_ends_with_the_worker(sql: Session) -> None:
    """A job must not kill workers for ever."""
    dead = await worker(sql)
    job = await add(sql, max_attempts=1)
    await fetch(sql, worker=dead)
    await die(sql, dead)

    assert [(job, dead, 1, 1)] == await rescue(sql)
    assert "discarded" == await sql.value("select asyncq._state(job) from asyncq._jobs as job")
    assert [] == await fetch(sql)


@pytest.mark.parametrize(("attempts", "left"), [(2, 3), (3, 3), (5, 5)])
async def test_a_rescue_adds_no_attempt_beyond_the_limit_and_takes_none_away(
    sql: Session, attempts: int, left: int
) -> None:
    """A running job may have used them up meanwhile, and an administrator may have lowered the limit."""
    dead = await worker(sql)
    job = await add(sql, max_attempts=3)
    await fetch(sql, worker=dead)
    await sql.rows("update asyncq._jobs set attempts = $1", attempts)
    await die(sql, dead)

    assert [(job, dead, left, 3)] == await rescue(sql)


@pytest.mark.parametrize("thorough", [False, True])
async def test_a_living_worker_keeps_its_jobs(sql: Session, thorough: bool) -> None:
    """Its jobs may run for long."""
    alive = await worker(sql, lease_s=3600.0)
    job = await add(sql, queue="q")
    await fetch(sql, worker=alive)
    await sql.rows("update asyncq._workers set last_seen = now() - interval '59 min'")

    assert [] == await rescue(sql, thorough=thorough)
    assert ([job], ["q"], [alive]) == (await claimed(sql), await locked_queues(sql), await workers(sql))


async def test_each_worker_has_a_lease_of_its_own(sql: Session) -> None:
    """Programs have different options."""
    patient, hasty = await worker(sql, lease_s=3600.0), await worker(sql)
    for one in (patient, hasty):
        await die(sql, one)
    await rescue(sql)

    assert [patient] == await workers(sql)


async def test_claims_of_a_worker_without_a_row_are_found_by_a_thorough_rescue(sql: Session) -> None:
    """A stalled worker may claim after it was declared dead. The search needs a scan."""
    job = await add(sql, queue="q")
    await fetch(sql, worker=77)
    at_a_glance = await rescue(sql)

    assert [] == at_a_glance
    assert [(job, 77, 0, 25)] == await rescue(sql, thorough=True)
    assert ([], []) == (await claimed(sql), await locked_queues(sql))


async def test_a_queue_that_no_live_worker_has_locked_is_freed_by_a_thorough_rescue(sql: Session) -> None:
    """If a job's row was deleted by hand, its queue would never run a job again."""
    await add(sql, queue="q")
    await fetch(sql, worker=77)
    await sql.execute("delete from asyncq._jobs")
    await rescue(sql, thorough=True)

    assert [] == await locked_queues(sql)


async def test_a_queue_whose_running_job_was_deleted_by_hand_is_freed_by_a_thorough_rescue(sql: Session) -> None:
    """Its worker lives, may do so for months, and has nothing that it could settle."""
    living = await worker(sql)
    await add(sql, queue="q")
    await add(sql, queue="r")
    await fetch(sql, 2, worker=living)
    await sql.execute("delete from asyncq._jobs where queue = 'q'")
    waiting = await add(sql, queue="q")
    await rescue(sql)
    before = await locked_queues(sql)
    back = await rescue(sql, thorough=True)

    assert (["q", "r"], [], ["r"]) == (before, back, await locked_queues(sql))
    assert [waiting] == [claim["id"] for claim in await fetch(sql, worker=living)]


async def test_the_claims_of_others_are_left_alone(sql: Session) -> None:
    """This holds for jobs and queues."""
    dead, alive = await worker(sql), await worker(sql)
    await add(sql, queue="theirs")
    await fetch(sql, worker=dead)
    mine = await add(sql, queue="mine")
    await fetch(sql, worker=alive)
    await die(sql, dead)
    await rescue(sql, thorough=True)

    assert ([mine], ["mine"], [alive]) == (await claimed(sql), await locked_queues(sql), await workers(sql))


@pytest.mark.parametrize("settle", [complete, change])
async def test_a_rescued_job_cannot_be_settled_by_its_late_worker(sql: Session, settle: object) -> None:
    """It was not dead, only silent: its run counts for nothing."""
    late = await worker(sql)
    job = await add(sql)
    claims = await fetch(sql, worker=late)
    await die(sql, late)
    await rescue(sql)

    assert [] == await settle(sql, claims, worker=late)
    assert [job] == await sql.values("select id from asyncq._jobs")


async def test_rescuing_twice_counts_one_attempt(sql: Session) -> None:
    """Every worker does it, at any time."""
    dead = await worker(sql)
    await add(sql)
    await fetch(sql, worker=dead)
    await die(sql, dead)
    await rescue(sql, thorough=True)

    assert [] == await rescue(sql, thorough=True)
    assert 1 == await sql.value("select attempts from asyncq._jobs")


@pytest.mark.parametrize("queues", [True, False])
async def test_a_job_that_is_locked_is_rescued_the_next_time(dsn: str, own: Session, queues: bool) -> None:
    """The rescue waits for nobody. The worker's row stays until all claims are returned."""
    dead = await worker(own)
    await add_many(own, 2, queue="'q' || i" if queues else "null")
    held, free = [claim["id"] for claim in await fetch(own, worker=dead)]
    await die(own, dead)
    async with session(dsn, own.schema) as other, other.connection.transaction():
        await other.rows("select from asyncq._jobs where id = $1 for update", held)
        first = await rescue(own)
        between = (await claimed(own), await locked_queues(own), await workers(own))

    assert ([free], ([held], ["q1"] if queues else [], [dead])) == ([row[0] for row in first], between)
    assert [held] == [row[0] for row in await rescue(own)]
    assert ([], [], []) == (await claimed(own), await locked_queues(own), await workers(own))


async def test_two_rescues_at_once_share_no_worker(dsn: str, own: Session) -> None:
    """The second one skips the workers of the first one, and does not wait."""
    dead = await worker(own)
    await add(own, queue="q")
    await fetch(own, worker=dead)
    await die(own, dead)
    async with session(dsn, own.schema) as other, other.connection.transaction():
        first = await rescue(other)
        second = await rescue(own, thorough=True)

    assert (1, []) == (len(first), second)


async def test_a_beat_that_comes_too_late_finds_no_row(sql: Session) -> None:
    """The worker then knows that it was declared dead."""
    dead = await worker(sql)
    await die(sql, dead)
    await rescue(sql)

    assert [] == await sql.run("beat", dead, NO_LOCK, [], "{}")


async def test_a_queue_that_a_fetch_holds_is_freed_without_waiting(dsn: str, own: Session) -> None:
    """A lock must not delay the rescue. It says that claims have ended; the next fetch counts them."""
    dead = await worker(own)
    job = await add(own, queue="q")
    await fetch(own, worker=dead)
    await die(own, dead)
    async with session(dsn, own.schema) as other, other.connection.transaction():
        await other.rows("select from asyncq._partitions for update")
        rescued = await rescue(own)
        between = (await claimed(own), await locked_queues(own), await workers(own))

    assert ([job], ([], [], [])) == ([row[0] for row in rescued], between)


@pytest.mark.parametrize("thorough", [False, True])
async def test_marked_jobs_of_a_dead_worker_end_by_their_mark_and_lose_no_attempt(sql: Session, thorough: bool) -> None:
    """A cancelled job must not run again, and one that was asked for again is no worse for the run that was lost."""
    dead = 77 if thorough else await worker(sql)
    cancelled, again, plain = [await add(sql, queue=f"q{number}", max_attempts=1) for number in range(3)]
    await keep(sql, cancelled)
    await fetch(sql, worker=dead)
    await sql.rows(CANCEL, cancelled)
    await sql.rows(ASK_AGAIN, again)
    if not thorough:
        await die(sql, dead)

    assert [(plain, dead, 0 if thorough else 1, 1)] == await rescue(sql, thorough=thorough)
    assert ([], [], []) == (await claimed(sql), await locked_queues(sql), await workers(sql))
    assert [(cancelled, "cancelled")] == await ended(sql)
    back = [(claim["id"], claim["attempts"]) for claim in await fetch(sql)]

    assert [(again, 0), *[(plain, 0)] * thorough] == back


async def test_when_a_worker_is_rescued_all_others_are_notified(own: Session) -> None:
    """The rescued job is due, its queue is free, and the dead worker may have been on call."""
    heard: list[object] = []
    dead = await worker(own)
    job = await add(own, queue="q")
    await fetch(own, worker=dead)
    await own.rows(CANCEL, job)
    await die(own, dead)
    await own.connection.add_listener(f"{own.schema}:jobs", lambda *said: heard.append(said[3]))
    await rescue(own)
    await own.rows("select")

    assert (["all"], []) == (heard, await workers(own))


async def test_a_worker_whose_lock_stayed_free_is_rescued_before_its_lease_is_over(sql: Session) -> None:
    """Its process has died: its connection ended, and it did not return within the grace."""
    await be_up_for_long(sql.connection, sql.schema)
    dead = await register(sql)
    job = await add(sql)
    await fetch(sql, worker=dead)
    await sql.rows(NAME_ALL, dead)
    await let_go(sql, dead)
    await sql.run("watch_workers", 0)
    within_the_grace = await rescue(sql)
    await end_the_grace(sql, dead)

    assert ([], [(job, dead, 1, 25)]) == (within_the_grace, await rescue(sql))
    said = f"WorkerLost: worker {dead} has died, or lost every connection"
    assert (said, []) == (await sql.value("select last_error from asyncq._jobs"), await workers(sql))


async def test_a_worker_that_has_its_lock_again_is_not_rescued_although_it_has_not_beaten_yet(
    dsn: str, own: Session
) -> None:
    """It takes its lock first, then it beats. It lives in between."""
    await be_up_for_long(own.connection, own.schema)
    async with session(dsn, own.schema) as other:
        late = await register(other)
        await let_go(other, late)
        await own.run("watch_workers", 0)
        await end_the_grace(own, late)
        await other.run("lock_worker", late, await other.value("select pg_backend_pid()"))
        await rescue(own)
        left = await workers(own)
        await other.execute("delete from asyncq._workers")

    assert [late] == left


async def test_a_rescue_holds_the_lock_of_its_worker(dsn: str, own: Session) -> None:
    """Otherwise the worker could come back in the middle. It must find its row deleted."""
    await be_up_for_long(own.connection, own.schema)
    async with session(dsn, own.schema) as other:
        late = await register(other)
        await let_go(other, late)
        await own.run("watch_workers", 0)
        await end_the_grace(own, late)
        backend = await other.value("select pg_backend_pid()")
        async with own.connection.transaction():
            await rescue(own)
            (held,) = await other.run("lock_worker", late, backend)

        assert (False, []) == (held["holds"], await other.run("beat", late, NO_LOCK, [], "{}"))


@pytest.mark.parametrize("slots", [1, 2])
async def test_only_a_claim_that_its_worker_has_named_loses_an_attempt(sql: Session, slots: int) -> None:
    """The others may have waited in its buffer, or on the way to it: they lose none, and last_error has the reason."""
    (row,) = await sql.run("register_worker", 30.0, 1, slots, "h", [], 0, None, [])
    dead = row["id"]
    ran, waited = await add(sql, max_attempts=1), await add(sql, max_attempts=1)
    await fetch(sql, 2, worker=dead, token=7)
    await sql.run("beat", dead, NO_LOCK, [f"{ran}/7", f"{waited}/6"], "{}")
    await sql.rows(LONG_AGO, dead)
    rows = sorted(tuple(found) for found in await sql.run("rescue_jobs", AT_A_GLANCE, None))
    said = await sql.value("select last_error from asyncq._jobs where id = $1", waited)

    assert [(ran, dead, 1, 1, True), (waited, dead, 0, 1, False)] == rows
    assert said.startswith("WorkerLost: ")
    assert said.endswith("whether it had begun this job is not known, so no attempt is counted")
    assert [waited] == [claim["id"] for claim in await fetch(sql, worker=await worker(sql))]


@pytest.mark.parametrize("thorough", [False, True])
@pytest.mark.parametrize("has", ["meta = '{}'", "queue = 'q'", "key = 'k'"])
async def test_a_fetch_that_was_in_flight_when_its_worker_died_costs_no_attempt(
    sql: Session, has: str, *, thorough: bool
) -> None:
    """The server has committed it, and no worker received it; with one attempt the job would be discarded."""
    dead = 77 if thorough else await worker(sql)
    job = await add(sql, max_attempts=1)
    await sql.rows(f"update asyncq._jobs set {has}")
    await fetch(sql, worker=dead)
    await sql.rows(LONG_AGO, dead)
    rescued = await rescue(sql, thorough=thorough)

    assert [(job, dead, 0, 1)] == rescued
    assert [job] == [claim["id"] for claim in await fetch(sql, worker=await worker(sql))]


@pytest.mark.parametrize("keeps_errors", [True, False])
async def test_a_lost_attempt_is_recorded_with_the_dead_worker(sql: Session, keeps_errors: bool) -> None:
    """Unless the rescuing worker records none. An attempt that does not count is no failure of the job."""
    dead = await worker(sql)
    lost, spared = await add(sql), await add(sql)
    await fetch(sql, worker=dead)
    await sql.rows("update asyncq._workers set started_claims = array[$1]", f"{lost}/1")
    await sql.rows(LONG_AGO, dead)
    await sql.run("rescue_jobs", AT_A_GLANCE, keeps_errors)
    error = f"WorkerLost: worker {dead} was not heard of for longer than its lease"
    recorded = await sql.rows("select job_id, number, kind, worker_id, error from asyncq.attempts")

    assert lost < spared
    assert [(lost, 1, "lost", dead, error)] * keeps_errors == [tuple(row) for row in recorded]
