"""`_all_ask_alike`: when jobs that share a key can be added at once."""

import json
from typing import Any

import pytest

from tests.support.session import Session
from tests.support.unique import DEFAULT_STATES

ALIKE = """
select asyncq._all_ask_alike(array(
  select asyncq._new_job('t', null, null, null, extra::jsonb)
  from unnest($1::text[]) with ordinality as given(extra, ord) order by ord))
"""
ASK = {"unique_key": r"\xaa", "on_conflict": "ignore", "states": [*DEFAULT_STATES], "period": None}


async def alike(sql: Session, *extras: dict[str, Any] | None) -> bool:
    """Whether they send equal rules."""
    return await sql.value(ALIKE, [None if extra is None else json.dumps(extra) for extra in extras])


async def test_jobs_with_equal_rules_are_alike(sql: Session) -> None:
    """Their answers, reject or ignore, may differ. The call may also have other keys, or jobs without one."""
    other = ASK | {"unique_key": r"\xbb", "states": ["scheduled", "available"], "period": "PT1H"}

    assert await alike(sql, ASK, ASK | {"on_conflict": "reject"}, None, other, other)


@pytest.mark.parametrize(
    "change",
    [
        {"on_conflict": "replace"},
        {"on_conflict": "replace_except_schedule"},
        {"on_conflict": "add"},
        {"rerun": True},
        {"idempotency_key": "r"},
        {"states": ["available"]},
        {"states": ["scheduled", "available"]},
        {"period": "PT1H"},
    ],
    ids=str,
)
async def test_those_that_do_more_or_ask_something_else_do_not(sql: Session, change: dict[str, Any]) -> None:
    """The later one might find another answer than the earlier one."""
    assert not await alike(sql, ASK, ASK | change)
    assert not await alike(sql, ASK | change, ASK)


@pytest.mark.parametrize(
    "change", [{"states": ["active", "available"]}, {"period": "PT0S"}, {"period": "P0D"}], ids=str
)
async def test_those_that_would_not_see_each_other_do_not(sql: Session, change: dict[str, Any]) -> None:
    """Each of them is added."""
    assert not await alike(sql, ASK | change, ASK | change)


async def test_job_keys_and_requests_may_change_the_jobs_that_others_see(sql: Session) -> None:
    """One of them is enough."""
    assert not await alike(sql, ASK, {"job_key": "k"})
    assert not await alike(sql, ASK, {"idempotency_key": "r"})


async def test_jobs_without_a_key_share_nothing(sql: Session) -> None:
    """Each of them is added."""
    assert await alike(sql, None, ASK, None, {"meta": {"m": 1}}, {"states": ["active"]})


async def test_a_condition_that_cannot_be_answered_counts_as_false(sql: Session) -> None:
    """A null would not count."""
    assert not await alike(sql, ASK, {"unique_key": r"\xbb"})
