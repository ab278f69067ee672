"""`_merged_payload`: two arrays are joined; the table of cases is in test_job_keys.py."""

import asyncpg
import pytest

from tests.support.session import Session

MERGE = "select asyncq._merged_payload($1::text::json, $2::text::json)::text"


@pytest.mark.parametrize(
    ("old", "new", "merged"),
    [
        ("[1]", "[2]", "[1, 2]"),
        ("[1]", "2", "2"),
        ("1", "[2]", "[2]"),
        ('{"a": 1}', '{"b":1}', '{"b":1}'),
        (
            "[9007199254740993]",
            "[123456789012345678901234567890.5]",
            "[9007199254740993, 123456789012345678901234567890.5]",
        ),
        ('["\\u00e9 \\ud83d\\udd11"]', "[]", '["é 🔑"]'),
    ],
)
async def test_arrays_are_joined_and_all_else_is_replaced(sql: Session, old: str, new: str, merged: str) -> None:
    """Numbers keep every digit, texts every character."""
    assert merged == await sql.value(MERGE, old, new)


async def test_a_merged_payload_is_no_larger_than_any_other_may_be(sql: Session) -> None:
    """Otherwise a key that collects elements all day would grow to an unreadable row."""
    half = '["' + "x" * (8 * 1024 * 1024 - 5) + '"]'
    fits = await sql.value(f"select octet_length(({MERGE[7:]}))", half, half)
    with pytest.raises(asyncpg.PostgresError) as caught:
        await sql.value(MERGE, half, half.replace("x", 9 * "x", 1))

    assert 16777216 >= fits > 16777200
    assert ("GWBPL", "payload") == (caught.value.sqlstate, caught.value.column_name)
