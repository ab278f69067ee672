"""`_kept_states`: in which states an ended job has to be known."""

from typing import Any

import pytest

from tests.support.session import Session
from tests.support.unique import ALL_STATES

ENDED = ["completed", "cancelled", "discarded"]


@pytest.mark.parametrize(
    ("extra", "states"),
    [
        ({}, None),
        ({"states": []}, None),
        ({"states": ["active", "pending"]}, None),
        ({"states": ["discarded", "active", "completed"]}, ["completed", "discarded"]),
        ({"states": ["cancelled"]}, ["cancelled"]),
        ({"states": ALL_STATES}, ENDED),
        ({"idempotency_key": "k"}, ENDED),
        ({"idempotency_key": "k", "states": ["completed"]}, ENDED),
    ],
    ids=str,
)
async def test_the_kept_states_are_those_that_a_policy_or_a_request_needs(
    sql: Session, extra: dict[str, Any], states: list[str] | None
) -> None:
    """A request that is made again wants to know in any case what became of its job."""
    given = (extra.get("states"), extra.get("idempotency_key"))

    assert states == await sql.value("select asyncq._kept_states($1, $2)", *given)
