"""`_collect_tasks`: unused names are removed by the second call; races: tests/store/test_collect_races.py."""

import pytest

from tests.sql.admin.test_used_tasks import USES
from tests.support.jobs import add, complete, fetch
from tests.support.session import Session
from tests.support.waiting import wait_until

COLLECT = "select asyncq._collect_tasks($1, '50 ms')"
NAMES = "select identifier from asyncq._tasks order by identifier"


async def collect(sql: Session, *keep: str) -> int:
    """Call it once; returns how many names were removed."""
    return await sql.value(COLLECT, list(keep))


async def collect_until_removed(sql: Session, *names: str) -> None:
    """Repeat it until names are removed: autovacuum, for example, may hold an old snapshot for a moment."""

    async def are_gone() -> bool:
        await collect(sql)
        return not {*names} & {*await sql.values(NAMES)}

    await wait_until(are_gone, description=f"{names} to be collected", limit_s=30)


async def test_an_unused_name_is_removed_by_the_second_call(own: Session) -> None:
    """The first one only marks it."""
    await own.execute("select asyncq._task_ids('{a,b}')")
    first = await collect(own)
    await collect_until_removed(own, "a", "b")

    assert (0, []) == (first, await own.values(NAMES))


async def test_two_calls_in_one_transaction_are_one(own: Session) -> None:
    """No other transaction has seen the mark."""
    await own.execute("select asyncq._task_ids('{a}')")
    async with own.connection.transaction():
        assert [0, 0] == [await collect(own), await collect(own)]

    assert ["a"] == await own.values(NAMES)


@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize("when", ["before the mark", "after it"])
async def test_a_name_that_is_used_stays(own: Session, use: str, when: str) -> None:
    """This includes a use that did not read the name again."""
    await own.execute("select asyncq._task_ids('{t,unused}')")
    if when == "after it":
        await collect(own)
    await own.execute(use)
    await collect_until_removed(own, "unused")
    left = await own.values(NAMES)
    await own.execute("delete from asyncq._workers")

    assert ["t"] == left


async def test_names_to_be_kept_stay(own: Session) -> None:
    """They may belong to a worker that is down. Null among them is ignored."""
    await own.execute("select asyncq._task_ids('{a,b,c}')")
    await collect(own)
    await own.rows("select asyncq._collect_tasks('{a,null}', '5 s')")
    await own.rows("select asyncq._collect_tasks('{a}', '5 s')")

    assert ["a"] == await own.values(NAMES)


async def test_a_name_that_is_used_again_is_not_retired_any_more(own: Session) -> None:
    """It keeps its number, so a session that remembers the number is right."""
    await own.execute("select asyncq._task_ids('{a}')")
    before = await own.row("select id from asyncq._tasks")
    await collect(own)
    await own.execute("select asyncq._task_ids('{a}')")
    after = await own.row("select id, retired_in from asyncq._tasks")

    assert (before["id"], None) == tuple(after)


async def test_an_add_of_a_removed_name_stores_it_again(own: Session) -> None:
    """The removed name has no effect on it."""
    await add(own, "a")
    await complete(own, await fetch(own))
    await collect(own)
    await collect_until_removed(own, "a")
    job = await add(own, "a")
    claims = await fetch(own)
    await complete(own, claims)

    assert [job] == [claim["id"] for claim in claims]


@pytest.mark.parametrize("level", ["repeatable_read", "serializable"])
async def test_an_old_snapshot_collects_nothing(own: Session, level: str) -> None:
    """It does not show what uses a name now: a clear refusal, rather than a job without a task."""
    async with own.connection.transaction(isolation=level):
        error = await own.refusal(COLLECT, [])

    assert "0A000" == error.sqlstate


async def test_a_mark_from_another_server_is_replaced(own: Session) -> None:
    """A restored dump has marks of future transaction ids."""
    await own.execute("select asyncq._task_ids('{a}')")
    await own.rows("update asyncq._tasks set retired_in = '99999999999999'")
    await collect(own)
    await collect_until_removed(own, "a")

    assert [] == await own.values(NAMES)
