"""`_split_batches_of_worker`: batches of one worker, by the tokens of their fetches."""

from tests.support.jobs import add_many, fetch
from tests.support.session import Session, session


async def test_the_batches_of_other_workers_and_fetches_stay(sql: Session) -> None:
    """Each worker counts its fetches itself."""
    await add_many(sql, 6)
    mine = await fetch(sql, 2, worker=1, token=5, form="batched")
    await fetch(sql, 2, worker=1, token=6, form="batched")
    await fetch(sql, 2, worker=2, token=5, form="batched")
    brought = await sql.values("select id from asyncq._split_batches_of_worker(1, '{5,7}') as id order by id")

    assert [claim["id"] for claim in mine] == brought == await sql.values("select id from asyncq._jobs order by id")
    assert [(1, 6), (2, 5)] == [
        (*row,) for row in await sql.rows("select locked_by, lock_token from asyncq._batches order by 1")
    ]


async def test_a_locked_one_is_not_waited_for(own: Session, dsn: str, schema: str) -> None:
    """The worker needs its connection for other statements."""
    await add_many(own, 2)
    await fetch(own, worker=1, token=5, form="batched")
    async with session(dsn, schema) as other, other.connection.transaction():
        await other.rows("select from asyncq._batches for update")
        during = await own.values("select id from asyncq._split_batches_of_worker(1, '{5}') as id")
    after = await own.values("select id from asyncq._split_batches_of_worker(1, '{5}') as id")
    await own.execute("delete from asyncq._jobs")

    assert ([], 2) == (during, len(after))
