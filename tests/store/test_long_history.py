"""A page of a long history: jobs that are rare in it are found by many looks, in order and once."""

from collections.abc import AsyncIterator

import pytest

from asyncq import Client
from asyncq.store import admin
from tests.support.session import Session

ENDED = 1000
FILL = f"""
insert into asyncq._ended_jobs
    (id, created_at, ended_at, keep_until, task_id, state, run_at, attempts, max_attempts, priority)
  select 2 * number, now(), now(), now() + interval '1 h', (select max(id) from asyncq._tasks),
    case when number in (3, 4, 500, 501, 999) then 'cancelled' else 'completed' end, now(), 1, 25, 0
  from generate_series(1, {ENDED}) as number"""
RARE = (1998, 1002, 1000, 8, 6)
DISCARDED = (1501, 1201, 901, 601, 301, 1)


@pytest.fixture
async def client(dsn: str, schema: str, sql: Session, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Client]:
    """A client beside ended jobs, and some discarded ones among them; a look is at 100."""
    monkeypatch.setattr(admin, "LOOKED_AT", 100)
    for job_id in reversed(DISCARDED):
        await sql.rows("select setval('asyncq._jobs_id_seq', $1, false)", job_id)
        await sql.rows("select asyncq.permanently_fail_jobs(array[(asyncq.add_job('t')).id])")
    await sql.execute(FILL)
    async with Client(dsn, schema=schema) as opened:
        yield opened


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 7, 100])
@pytest.mark.parametrize("state", ["cancelled", "discarded", "completed", None])
async def test_pages_have_each_job_once_in_order(client: Client, state: str | None, limit: int) -> None:
    """Each page but the last one is full."""
    pages = [await client.admin.list_ended_jobs(state=state, limit=limit)]
    while len(pages[-1]) == limit and len(pages) < 12:
        pages.append(await client.admin.list_ended_jobs(state=state, limit=limit, before=pages[-1][-1].id))
    wanted = {"cancelled": RARE, "discarded": DISCARDED, "completed": set(range(2, 2 * ENDED + 1, 2)) - {*RARE}}
    every = sorted(wanted[state] if state else {*RARE, *DISCARDED, *wanted["completed"]}, reverse=True)

    assert every[: 12 * limit] == [job.id for page in pages for job in page]
