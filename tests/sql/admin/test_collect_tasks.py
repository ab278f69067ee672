"""`_collect_tasks`: names that nothing uses go, by the second call; races: tests/store/test_collect_races.py."""

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


async def until_gone(sql: Session, *names: str) -> None:
    """Call it until names are gone: somebody else, such as autovacuum, may hold an old snapshot for a moment."""

    async def are_gone() -> bool:
        await collect(sql)
        return not {*names} & {*await sql.values(NAMES)}

    await wait_until(are_gone, description=f"{names} to be collected", limit_s=30)


async def test_a_name_that_nothing_uses_goes_by_the_second_call(own: Session) -> None:
    """The first one only marks it."""
    await own.execute("select asyncq._task_ids('{a,b}')")
    first = await collect(own)
    await until_gone(own, "a", "b")

    assert (0, []) == (first, await own.values(NAMES))


async def test_two_calls_in_one_transaction_are_one(own: Session) -> None:
    """Nobody else has seen the mark."""
    await own.execute("select asyncq._task_ids('{a}')")
    async with own.connection.transaction():
        assert [0, 0] == [await collect(own), await collect(own)]

    assert ["a"] == await own.values(NAMES)


@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize("when", ["before the mark", "after it"])
async def test_a_name_that_is_used_stays(own: Session, use: str, when: str) -> None:
    """Also if the use came without looking the name up again."""
    await own.execute("select asyncq._task_ids('{t,unused}')")
    if when == "after it":
        await collect(own)
    await own.execute(use)
    await until_gone(own, "unused")
    left = await own.values(NAMES)
    await own.execute("delete from asyncq._workers")

    assert ["t"] == left


async def test_names_to_be_kept_stay(own: Session) -> None:
    """Of a worker that is not there at the moment, say; a null among them is nobody."""
    await own.execute("select asyncq._task_ids('{a,b,c}')")
    await collect(own)
    await own.rows("select asyncq._collect_tasks('{a,null}', '5 s')")
    await own.rows("select asyncq._collect_tasks('{a}', '5 s')")

    assert ["a"] == await own.values(NAMES)


async def test_a_name_that_is_looked_up_again_is_not_retired_any_more(own: Session) -> None:
    """It has the same number, so a session that remembers the number is right."""
    await own.execute("select asyncq._task_ids('{a}')")
    before = await own.row("select id from asyncq._tasks")
    await collect(own)
    await own.execute("select asyncq._task_ids('{a}')")
    after = await own.row("select id, retired_in from asyncq._tasks")

    assert (before["id"], None) == tuple(after)


async def test_an_add_of_a_removed_name_stores_it_anew(own: Session) -> None:
    """As if it had never been."""
    await add(own, "a")
    await complete(own, await fetch(own))
    await collect(own)
    await until_gone(own, "a")
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


async def test_a_mark_from_another_server_is_made_anew(own: Session) -> None:
    """A dump that was restored has marks of transactions that are yet to come."""
    await own.execute("select asyncq._task_ids('{a}')")
    await own.rows("update asyncq._tasks set retired_in = '99999999999999'")
    await collect(own)
    await until_gone(own, "a")

    assert [] == await own.values(NAMES)
