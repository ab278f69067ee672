"""`list_jobs`: pages of jobs, for who looks from SQL."""

from tests.support.jobs import add
from tests.support.session import Session


async def test_the_next_page_begins_after_the_last_id(sql: Session) -> None:
    """Jobs that come and go meanwhile move no page."""
    ids = [await add(sql) for _ in range(5)]
    first = await sql.values("select id from asyncq.list_jobs(most => 2)")
    await sql.rows("delete from asyncq._jobs where id = $1", ids[0])
    second = await sql.values("select id from asyncq.list_jobs(most => 2, after => $1)", first[-1])

    assert [ids[:2], ids[2:4]] == [first, second]


async def test_filters_go_together(sql: Session) -> None:
    """Null is any."""
    mine = await add(sql, "a", queue="q", flags=["f"])
    await add(sql, "b", queue="q", flags=["f"])
    await add(sql, "a", flags=["f"])
    await add(sql, "a", queue="q")
    found = await sql.values("select id from asyncq.list_jobs('available', 'a', 'q', 'f')")

    assert [mine] == found
