"""`_open_slot` and `close_slot`: an idle worker lets adds claim one job for it."""

import pytest

from tests.support.handoffs import CHANNEL, SLOT, add_plain, leave_versions, open_slot, register
from tests.support.jobs import add_many
from tests.support.session import Session, session

FIRST, SECOND = 11, 12
AT_A_GLANCE = False


async def make(sql: Session, worker: int, token: int, *, heard: int = 0, hold: bool = True) -> bool | None:
    """Open a slot for task 1."""
    ((is_made,),) = await sql.run("open_slot", worker, token, heard, "{1}", "{1}", CHANNEL, hold)
    return is_made


async def slot(sql: Session) -> tuple[int | None, bool]:
    """The only slot: its token, and whether it was taken."""
    token, is_taken = await sql.row(SLOT)
    return token, is_taken


async def test_a_slot_is_open_until_it_is_taken_or_closed(own: Session, idle: Session) -> None:
    """The worker that opens a slot chooses the token of the claim."""
    worker = await register(own)
    none = await slot(own)
    is_made = await make(idle, worker, FIRST)
    stands = await slot(own)
    (withdrawn,) = await own.run("close_slot", worker)

    assert ((None, False), True, (FIRST, False)) == (none, is_made, stands)
    assert (None, (None, False)) == (withdrawn["token"], await slot(own))


async def test_a_close_returns_the_claim_that_was_made(own: Session, idle: Session) -> None:
    """The worker knows whether it received the notification."""
    worker = await open_slot(idle, FIRST)
    await add_plain(own)
    (withdrawn,) = await own.run("close_slot", worker)

    assert (FIRST, (None, False)) == (withdrawn["token"], await slot(own))


@pytest.mark.parametrize("heard", [0, FIRST])
async def test_a_taken_slot_is_renewed_only_by_a_worker_that_received_its_claim(
    own: Session, idle: Session, heard: int
) -> None:
    """Otherwise its job would be lost until a rescue."""
    worker = await open_slot(idle, FIRST)
    await add_plain(own)
    is_made = await make(idle, worker, SECOND, heard=heard)

    assert (heard == FIRST) == is_made
    assert ((SECOND, False) if heard else (FIRST, True)) == await slot(own)


async def test_a_worker_that_was_declared_dead_opens_no_slot(own: Session, idle: Session) -> None:
    """The row of its slot was deleted with the worker's."""
    worker = await open_slot(idle, FIRST)
    await own.execute("delete from asyncq._workers")

    assert not await make(idle, worker, SECOND)
    assert [] == await own.run("close_slot", worker)


async def test_only_one_connection_speaks_for_a_worker(dsn: str, own: Session, idle: Session) -> None:
    """The server may believe that an older one lives."""
    worker = await open_slot(idle, FIRST)
    async with session(dsn, own.schema) as newer:
        assert not await make(newer, worker, SECOND)
    assert (FIRST, False) == await slot(own)


async def test_a_worker_is_not_removed_while_the_job_of_its_slot_has_a_row_of_its_own(
    own: Session, idle: Session
) -> None:
    """A call of an administrator has split the batch. The worker has not received the job, and cannot return it."""
    worker = await open_slot(idle, FIRST)
    job = await add_plain(own)
    await own.rows("select asyncq._split_batches_of_jobs(array[$1]::bigint[])", job)
    refused = await own.run("remove_worker", worker)
    await own.run("close_slot", worker)
    removed = await own.run("remove_worker", worker)

    assert ([], [worker]) == (refused, [row["id"] for row in removed])


async def test_a_worker_is_not_removed_while_its_slot_is_open_or_taken_or_it_has_a_batch(
    own: Session, idle: Session
) -> None:
    """Otherwise a claim would remain that nobody returns."""
    worker = await open_slot(idle, FIRST)
    refused = await own.run("remove_worker", worker)
    await add_plain(own)
    refused += await own.run("remove_worker", worker)
    await own.run("close_slot", worker)
    refused += await own.run("remove_worker", worker)
    await own.execute("delete from asyncq._batches")
    removed = await own.run("remove_worker", worker)

    assert ([], [worker], []) == (
        refused,
        [row["id"] for row in removed],
        await own.rows("select from asyncq._handoff_slots"),
    )


async def test_a_worker_that_was_declared_dead_opens_no_slot_although_it_has_a_row(
    dsn: str, own: Session, idle: Session
) -> None:
    """An add holds its slot while it is rescued, so the rescue removes neither the slot nor the worker."""
    worker = await open_slot(idle, FIRST)
    await own.rows("update asyncq._workers set last_seen = last_seen - lease - interval '1 s'")
    async with session(dsn, own.schema) as adding, adding.connection.transaction():
        await adding.rows("select from asyncq._batches for update")
        await own.run("rescue_jobs", AT_A_GLANCE, None)
    async with session(dsn, own.schema) as back:
        is_made = await make(back, worker, SECOND)

    assert (False, [worker]) == (is_made, await own.values("select id from asyncq._workers where died_at is not null"))
    assert (FIRST, False) == await slot(own)


@pytest.mark.parametrize("hold", [False, True])
async def test_no_slot_is_opened_while_there_are_many_versions_of_slots(
    dsn: str, own: Session, idle: Session, *, hold: bool
) -> None:
    """A held snapshot causes them, and each add would scan them. Adds then look for no slots."""
    worker = await open_slot(idle, FIRST)
    await add_plain(own)
    await leave_versions(own)
    seen = [await own.value("select asyncq._has_open_slot()")]
    async with session(dsn, own.schema) as other:
        is_made = await make(other if hold else idle, worker, SECOND, heard=FIRST, hold=hold)
    seen.append(await own.value("select asyncq._has_open_slot()"))
    await own.execute("vacuum asyncq._handoff_slots")
    later = await make(idle, worker, SECOND, heard=FIRST, hold=not hold)

    assert (None, [True, hold], True) == (is_made, seen, later)
    assert await own.value("select asyncq._has_open_slot()")
    assert (SECOND, False) == await slot(own)


async def test_no_slot_is_opened_while_there_are_many_versions_of_batches(own: Session, idle: Session) -> None:
    """Each handed-off job leaves two of them."""
    worker = await open_slot(idle, FIRST)
    await add_plain(own)
    await leave_versions(own, "_batches")
    is_made = await make(idle, worker, SECOND, heard=FIRST, hold=False)

    assert (None, (FIRST, True)) == (is_made, await slot(own))


async def test_no_slot_is_opened_while_ids_would_be_given_once_more(own: Session, idle: Session) -> None:
    """A dump was loaded without its sequence. Of two jobs with one id a batch that is split loses one."""
    worker = await register(own)
    await own.execute("select from asyncq.add_job('t'); update asyncq._jobs set id = 3")
    seen = [await make(idle, worker, FIRST)]
    await own.execute("select setval('asyncq._jobs_id_seq', 3)")
    seen.append(await make(idle, worker, FIRST))

    assert [None, True] == seen


async def test_a_slot_reads_none_of_the_jobs(own: Session, idle: Session) -> None:
    """Many jobs may wait for their time."""
    worker = await register(own)
    await add_many(own, 2_000)
    await own.execute("vacuum analyze asyncq._jobs")
    read = """
        select sum(pg_stat_get_xact_tuples_returned(relation.oid) + pg_stat_get_xact_tuples_fetched(relation.oid))
        from pg_class as relation left join pg_index as index on index.indexrelid = relation.oid
        where 'asyncq._jobs'::regclass in (relation.oid, index.indrelid)"""
    async with idle.connection.transaction():
        is_made = await make(idle, worker, FIRST)
        rows = await idle.value(read)

    assert is_made
    assert rows < 10


async def test_a_connection_that_was_used_for_two_workers_releases_the_locks_of_both(
    own: Session, idle: Session
) -> None:
    """A worker that was declared dead continues under another id on the same connection."""
    await open_slot(idle, FIRST)
    worker = await open_slot(idle, SECOND)
    await leave_versions(own)
    assert await own.value("select asyncq._has_open_slot()")

    assert await make(idle, worker, SECOND + 1, hold=False) is None
    assert not await own.value("select asyncq._has_open_slot()")
