"""`adapters.binding`: statements and parameters as text, for any driver."""

from datetime import UTC, datetime

import asyncpg
import pytest

from asyncq.domain.job import JobKeyMode
from asyncq.store.adapters.binding import named, values
from asyncq.store.adapters.psycopg import rendered
from tests.support.ids import written

CASES = [
    (None, "text", None),
    ("a", "text", "a"),
    (JobKeyMode.REPLACE, "text", "replace"),
    (True, "bool", True),
    (False, "bool", False),
    (-7, "bigint", -7),
    (2**63 - 1, "bigint", 2**63 - 1),
    (0.25, "float8", 0.25),
    (datetime(2030, 1, 31, 4, 5, 6, 7, UTC), "timestamptz", datetime(2030, 1, 31, 4, 5, 6, 7, UTC)),
    ([], "text[]", []),
    ([1, -2, None], "bigint[]", [1, -2, None]),
    (("", "null", "NULL", None), "text[]", ["", "null", "NULL", None]),
    (['a"b', "a\\b", "{a,b}", " a ", "\n\t"], "text[]", ['a"b', "a\\b", "{a,b}", " a ", "\n\t"]),
]


@pytest.mark.parametrize(("value", "kind", "expected"), CASES, ids=written)
async def test_a_value_is_read_as_the_driver_would_send_it(
    db: asyncpg.Connection, value: object, kind: str, expected: object
) -> None:
    """PostgreSQL casts the text to the type of the parameter."""
    sent = values([value])["p1"]

    assert sent is None or type(sent) is str or isinstance(value, str)
    assert expected == await db.fetchval(f"select cast($1 as text)::{kind}", sent)


def test_each_parameter_gets_a_name_and_is_sent_as_text() -> None:
    """A name may occur several times; what the driver would read as its own syntax is escaped."""
    statement = "select $1::int, $2, $1::text, a % 2, $10"

    assert (
        "select cast(:p1 as text)::int, cast(:p2 as text), cast(:p1 as text)::text, a % 2, cast(:p10 as text)"
        == named(statement, ":{}")
    )
    assert "cast(%(p2)s as text)" in rendered(statement)
    assert "a %% 2" in rendered(statement)
