"""`_make_offer`, and what withdraws it: an idle worker lets adds claim one job for it."""

import pytest

from tests.sql.jobs import add_many
from tests.sql.offering import CHANNEL, OFFER, add_plain, leave_versions, offering, register
from tests.sql.session import Session, session

FIRST, SECOND = 11, 12
AT_A_GLANCE = False


async def make(sql: Session, worker: int, token: int, *, heard: int = 0, hold: bool = True) -> bool | None:
    """Offer to take a job of task 1."""
    ((is_made,),) = await sql.run("make_offer", worker, token, heard, "{1}", "{1}", CHANNEL, hold)
    return is_made


async def offer(sql: Session) -> tuple[int | None, bool]:
    """The only offer: its token, and whether it was taken."""
    token, is_taken = await sql.row(OFFER)
    return token, is_taken


async def test_an_offer_stands_until_it_is_taken_or_withdrawn(own: Session, idle: Session) -> None:
    """Who makes one says by which token the job is claimed."""
    worker = await register(own)
    none = await offer(own)
    is_made = await make(idle, worker, FIRST)
    stands = await offer(own)
    (withdrawn,) = await own.run("withdraw_offer", worker)

    assert ((None, False), True, (FIRST, False)) == (none, is_made, stands)
    assert (None, (None, False)) == (withdrawn["token"], await offer(own))


async def test_who_withdraws_is_told_what_was_claimed(own: Session, idle: Session) -> None:
    """Whether it was heard of is the worker's to know."""
    worker = await offering(idle, FIRST)
    await add_plain(own)
    (withdrawn,) = await own.run("withdraw_offer", worker)

    assert (FIRST, (None, False)) == (withdrawn["token"], await offer(own))


@pytest.mark.parametrize("heard", [0, FIRST])
async def test_an_offer_that_was_taken_is_renewed_only_by_who_has_heard_of_it(
    own: Session, idle: Session, heard: int
) -> None:
    """Otherwise its job would be forgotten."""
    worker = await offering(idle, FIRST)
    await add_plain(own)
    is_made = await make(idle, worker, SECOND, heard=heard)

    assert (heard == FIRST) == is_made
    assert ((SECOND, False) if heard else (FIRST, True)) == await offer(own)


async def test_who_was_declared_dead_offers_nothing(own: Session, idle: Session) -> None:
    """Its row is gone with that of the worker."""
    worker = await offering(idle, FIRST)
    await own.execute("delete from asyncq._workers")

    assert not await make(idle, worker, SECOND)
    assert [] == await own.run("withdraw_offer", worker)


async def test_only_one_connection_speaks_for_a_worker(dsn: str, own: Session, idle: Session) -> None:
    """The server may believe that an older one lives."""
    worker = await offering(idle, FIRST)
    async with session(dsn, own.schema) as newer:
        assert not await make(newer, worker, SECOND)
    assert (FIRST, False) == await offer(own)


async def test_a_worker_is_not_removed_while_its_offer_stands_or_was_taken_or_it_holds_a_batch(
    own: Session, idle: Session
) -> None:
    """It would leave a claim that nobody returns."""
    worker = await offering(idle, FIRST)
    refused = await own.run("remove_worker", worker)
    await add_plain(own)
    refused += await own.run("remove_worker", worker)
    await own.run("withdraw_offer", worker)
    refused += await own.run("remove_worker", worker)
    await own.execute("delete from asyncq._batches")
    removed = await own.run("remove_worker", worker)

    assert ([], [worker], []) == (refused, [row["id"] for row in removed], await own.rows("select from asyncq._offers"))


async def test_a_worker_that_was_declared_dead_offers_nothing_although_its_row_is_there(
    dsn: str, own: Session, idle: Session
) -> None:
    """An add holds its offer while it is rescued, so the rescue removes neither the offer nor the worker."""
    worker = await offering(idle, FIRST)
    await own.rows("update asyncq._workers set last_seen = last_seen - lease - interval '1 s'")
    async with session(dsn, own.schema) as adding, adding.connection.transaction():
        await adding.rows("select from asyncq._batches for update")
        await own.run("rescue_jobs", AT_A_GLANCE)
    async with session(dsn, own.schema) as back:
        is_made = await make(back, worker, SECOND)

    assert (False, [worker]) == (is_made, await own.values("select id from asyncq._workers where died_at is not null"))
    assert (FIRST, False) == await offer(own)


@pytest.mark.parametrize("hold", [False, True])
async def test_nothing_is_offered_while_there_are_many_versions_of_offers(
    dsn: str, own: Session, idle: Session, *, hold: bool
) -> None:
    """As under a snapshot that is held. Each add would walk over them; so none looks for an offer any more."""
    worker = await offering(idle, FIRST)
    await add_plain(own)
    await leave_versions(own)
    seen = [await own.value("select asyncq._has_offers()")]
    async with session(dsn, own.schema) as other:
        is_made = await make(other if hold else idle, worker, SECOND, heard=FIRST, hold=hold)
    seen.append(await own.value("select asyncq._has_offers()"))
    await own.execute("vacuum asyncq._offers")
    later = await make(idle, worker, SECOND, heard=FIRST, hold=not hold)

    assert (None, [True, hold], True) == (is_made, seen, later)
    assert await own.value("select asyncq._has_offers()")
    assert (SECOND, False) == await offer(own)


async def test_nothing_is_offered_while_there_are_many_versions_of_batches(own: Session, idle: Session) -> None:
    """Each job that was handed over leaves two of them."""
    worker = await offering(idle, FIRST)
    await add_plain(own)
    await leave_versions(own, "_batches")
    is_made = await make(idle, worker, SECOND, heard=FIRST, hold=False)

    assert (None, (FIRST, True)) == (is_made, await offer(own))


async def test_nothing_is_offered_while_ids_would_be_given_once_more(own: Session, idle: Session) -> None:
    """A dump was loaded without its sequence. Of two jobs with one id an unpacked batch loses one."""
    worker = await register(own)
    await own.execute("select from asyncq.add_job('t'); update asyncq._jobs set id = 3")
    seen = [await make(idle, worker, FIRST)]
    await own.execute("select setval('asyncq._jobs_id_seq', 3)")
    seen.append(await make(idle, worker, FIRST))

    assert [None, True] == seen


async def test_an_offer_reads_none_of_the_jobs(own: Session, idle: Session) -> None:
    """However many wait for their time."""
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


async def test_who_spoke_for_two_workers_lets_go_of_the_lock_of_both(own: Session, idle: Session) -> None:
    """A worker that was declared dead goes on under another id, over the same connection."""
    await offering(idle, FIRST)
    worker = await offering(idle, SECOND)
    await leave_versions(own)
    assert await own.value("select asyncq._has_offers()")

    assert await make(idle, worker, SECOND + 1, hold=False) is None
    assert not await own.value("select asyncq._has_offers()")
