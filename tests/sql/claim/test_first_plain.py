"""`_first_plain`: the first due jobs without a partition, as `fetch_jobs` reads them."""

from typing import Any

import pytest

from tests.support.jobs import add
from tests.support.session import Session

FIRST = """
select id from asyncq._first_plain(
  array(select id from asyncq._tasks where identifier <> 'strange'), '{x}', $1, $2, $3,
  now(), now() - make_interval(secs => $4), 2)
order by priority, run_at, id"""


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        ((None, None, None, None), ["urgent", "old", "due"]),
        ((0, "old", "old", None), ["due", "late"]),
        ((None, None, None, 1800.0), ["due", "late"]),
    ],
    ids=["from the start", "after a job", "due for a short time"],
)
async def test_only_jobs_that_a_fetch_may_claim_are_read(
    sql: Session, after: tuple[Any, ...], expected: list[str]
) -> None:
    """Of each priority at most two, here. Others are not due, or for other workers, or have a partition."""
    ids = {
        "old": await add(sql, run_at="now() - interval '2 h'"),
        "due": await add(sql),
        "late": await add(sql),
        "urgent": await add(sql, priority=-1, run_at="now() - interval '1 h'"),
    }
    await add(sql, run_at="now() + interval '1 h'")
    await add(sql, "strange")
    await add(sql, queue="q")
    await sql.execute(f"update asyncq._jobs set flags = '{{\"x\": true}}' where id = {await add(sql)}")
    priority, place, job, since = after
    run_at = None if place is None else await sql.value("select run_at from asyncq._jobs where id = $1", ids[place])

    found = await sql.values(FIRST, priority, run_at, ids.get(job), since)

    assert [ids[name] for name in expected] == found
