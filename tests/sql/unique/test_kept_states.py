"""`_kept_states`: in which states an ended job has to be known."""

import json
from typing import Any

import pytest

from tests.support.session import Session
from tests.support.unique import ALL_STATES

ENDED = ["completed", "cancelled", "discarded"]


@pytest.mark.parametrize(
    ("extra", "states"),
    [
        (None, None),
        ({}, None),
        ({"states": []}, None),
        ({"states": ["active", "pending"]}, None),
        ({"states": ["discarded", "active", "completed"]}, ["completed", "discarded"]),
        ({"states": ["cancelled"]}, ["cancelled"]),
        ({"states": ALL_STATES}, ENDED),
        ({"request": "k"}, ENDED),
        ({"request": "k", "states": ["completed"]}, ENDED),
    ],
    ids=str,
)
async def test_the_states_are_those_that_something_looks_at(
    sql: Session, extra: dict[str, Any] | None, states: list[str] | None
) -> None:
    """A request that is made again wants to know in any case what became of its job."""
    text = None if extra is None else json.dumps(extra)

    assert states == await sql.value("select asyncq._kept_states($1::text::jsonb)", text)
