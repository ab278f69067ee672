"""Values of limits that are set by hand: their types are checked here, their ranges by the server."""

from typing import Any

import msgspec
import pytest

from asyncq import LimitValues, Rate
from asyncq.domain.errors import InvalidJob
from asyncq.domain.limit_info import limit_values, partition_values, phrase

UNSET: dict[str, Any] = dict.fromkeys(("at_once", "rate", "total", "total_rate"), msgspec.UNSET)


def test_a_value_that_is_not_given_is_left_as_it_is_and_none_is_no_limit() -> None:
    """So one value can be set without the others."""
    given = limit_values("t", None, **UNSET | {"at_once": None, "rate": Rate(9, per=60)})

    assert (None, 9, 60.0, ["at_once"]) == (given.at_once, given.rate, given.per_s, given.unlimited)


@pytest.mark.parametrize(
    ("values", "field", "said"),
    [
        ({"at_once": True}, "at_once", "at_once must be an int, got bool"),
        ({"total": "3"}, "total", "total must be an int, got str"),
        ({"rate": 3}, "rate", "rate must be a Rate, as Rate(100, per='1 min'), got 3"),
        ({"rate": Rate(3, per=1, by="a")}, "rate", "rate has no by=: the key of a limit is that of its tasks"),
    ],
)
def test_a_value_of_another_type_is_refused(values: Any, field: str, said: str) -> None:
    """The error has the code of the SQL functions."""
    with pytest.raises(InvalidJob) as caught:
        limit_values("t", None, **UNSET | values)

    assert ("22023", field, said) == (caught.value.code, caught.value.field, str(caught.value))


def test_the_weight_of_a_key_is_a_number() -> None:
    """A text would be cast by the server."""
    with pytest.raises(InvalidJob, match="weight must be a number, got str"):
        partition_values("t", "a", None, at_once=None, rate=None, weight="2")

    assert (3, None, None, 2) == partition_values("t", "a", None, at_once=3, rate=None, weight=2)


def test_values_are_said_as_a_phrase() -> None:
    """A queue has no keys."""
    values = LimitValues(at_once=3, rate=9, per_s=1.0)

    assert "3 at once of each key, 9 starts in 1 s of each key" == phrase(values, "limit")
    assert ("3 at once, 9 starts in 1 s", "no limit") == (phrase(values, "queue"), phrase(LimitValues(), "limit"))
