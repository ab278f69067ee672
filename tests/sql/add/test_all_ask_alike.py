"""`_all_ask_alike`: when jobs that share a key can be added at once."""

import json
from typing import Any

import pytest

from tests.support.session import Session
from tests.support.unique import DEFAULT_STATES

ALIKE = "select asyncq._all_ask_alike($1::text[], $2::text[]::jsonb[])"
ASK = {"key": "aa", "on_conflict": "ignore", "states": [*DEFAULT_STATES], "period": None}


async def alike(sql: Session, *extras: dict[str, Any] | None, job_keys: list[str | None] | None = None) -> bool:
    """Whether they do."""
    texts = [None if extra is None else json.dumps(extra) for extra in extras]
    return await sql.value(ALIKE, job_keys, texts)


async def test_those_that_only_ask_the_same_do(sql: Session) -> None:
    """Whether they are told or not; others in the call may ask something else, or nothing."""
    other = ASK | {"key": "bb", "states": ["scheduled", "available"], "period": "PT1H"}

    assert await alike(sql, ASK, ASK | {"on_conflict": "reject"}, None, other, other, job_keys=[None] * 5)


@pytest.mark.parametrize(
    "change",
    [
        {"on_conflict": "replace"},
        {"on_conflict": "replace_except_schedule"},
        {"on_conflict": "add"},
        {"rerun": True},
        {"request": "r"},
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


async def test_job_keys_and_requests_may_change_what_others_see(sql: Session) -> None:
    """One of them is enough."""
    assert not await alike(sql, ASK, None, job_keys=[None, "k"])
    assert not await alike(sql, ASK, {"request": "r"})


@pytest.mark.parametrize("document", [{"keep": True}, {key: ASK[key] for key in ASK if key != "key"}], ids=str)
async def test_documents_without_a_key_share_nothing(sql: Session, document: dict[str, Any]) -> None:
    """The first one would answer the others, and they would be lost."""
    assert not await alike(sql, document, document)
    assert not await alike(sql, ASK, ASK, document)


async def test_a_condition_that_cannot_be_answered_counts_as_false(sql: Session) -> None:
    """A null would not count."""
    assert not await alike(sql, ASK, {"key": "bb"})
