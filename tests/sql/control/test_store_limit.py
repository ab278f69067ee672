"""`_store_limit` and its helpers: a limit has the declared values, and in their place those that were set."""

import json
from typing import Any

import pytest

from tests.support.jobs import add, fetched
from tests.support.session import Session

LIMIT = "insert into asyncq._limits (id, name) values (7, 'l')"
STORE = """
select asyncq._store_limit(jsonb_populate_record(held, $1::text::jsonb))
from asyncq._limits as held where held.id = 7"""


@pytest.fixture
async def limited(sql: Session) -> Session:
    """A session with a limit of the task `t`."""
    await sql.execute(
        f"{LIMIT}; select asyncq._store_tasks('{{t}}'); update asyncq._tasks set limit_id = 7, by = '{{k}}'"
    )
    return sql


async def test_what_was_set_replaces_what_was_declared(limited: Session) -> None:
    """Values that nobody names limit nothing."""
    await limited.rows(STORE, '{"declared": {"at_once": 3, "total": 9}, "overrides": {"at_once": 5}}')
    both = tuple(await limited.row("select at_once, total, rate, fair from asyncq._limits where id = 7"))
    await limited.rows(STORE, '{"overrides": null}')

    assert (5, 9, None, False) == both
    assert 3 == await limited.value("select at_once from asyncq._limits where id = 7")


async def test_a_higher_limit_wakes_the_jobs_that_wait(limited: Session) -> None:
    """A full partition has no wakeup."""
    await limited.rows(STORE, '{"declared": {"at_once": 1}}')
    jobs = [await add(limited) for _ in range(3)]
    before = [await fetched(limited), await fetched(limited)]
    await limited.rows(STORE, '{"declared": {"at_once": 2}}')

    assert ([jobs[:1], []], jobs[1:2]) == (before, await fetched(limited))


@pytest.mark.parametrize(
    ("before", "after", "is_raised"),
    [
        ({"at_once": 2}, {"at_once": 3}, True),
        ({"at_once": 2}, {}, True),
        ({"total": 2}, {"total": 3}, True),
        ({"at_once": 3, "total": 3}, {"at_once": 2, "total": 3}, False),
        ({}, {"at_once": 2}, False),
        ({"rate": 2, "per_s": 60}, {"rate": 2, "per_s": 1}, True),
        ({"fair": True}, {"fair": False}, False),
    ],
)
async def test_more_jobs_may_start_if_any_value_is_raised(
    sql: Session, before: dict[str, Any], after: dict[str, Any], is_raised: bool
) -> None:
    """A value that is left out limits nothing. Of rates any change may be one."""
    row = "jsonb_populate_record(null::asyncq._limits, asyncq._no_limit() || $1::text::jsonb)"
    sent = "select asyncq._is_raised({}, {})".format(row, row.replace("$1", "$2"))

    assert is_raised == await sql.value(sent, json.dumps(before), json.dumps(after))
