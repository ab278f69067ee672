"""`_check_escapes`: refuses escapes that no text of PostgreSQL can hold."""

import pytest

from tests.support.session import Session
from tests.support.twins import outcomes

CALL = "asyncq._check_escapes(a1::json, 'meta')::text"


@pytest.mark.parametrize(
    "text",
    [
        r'"\u0001 \u00e9"',
        r'"\\u0000"',
        r'"\\\\u0000"',
        r'"\\ud800"',
        r'"\ud83d\ude00"',
        r'"\uD83D\uDE00\uDBFF\uDFFF"',
        r'{"\ud83d\ude00":"\\\ud83d\ude00"}',
        r'"\uE000\u1d800"',
    ],
)
async def test_an_escape_that_a_text_can_hold_passes(sql: Session, text: str) -> None:
    """After an escaped backslash, u0000 is plain text."""
    assert [""] == await outcomes(sql, CALL, [text])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (r'"\u0000"', "meta holds U+0000, which PostgreSQL cannot store as text"),
        (r'["\\\u0000"]', "meta holds U+0000, which PostgreSQL cannot store as text"),
        (r'{"a\u0000":1}', "meta holds U+0000, which PostgreSQL cannot store as text"),
        (r'"\ud800"', "meta holds half of a surrogate pair, which is no character"),
        (r'"\uDFFF"', "meta holds half of a surrogate pair, which is no character"),
        (r'"\ud83d\ud83d\ude00"', "meta holds half of a surrogate pair, which is no character"),
        (r'"\ud83d\ude00\ude00"', "meta holds half of a surrogate pair, which is no character"),
        (r'"\ud83d\\\ude00"', "meta holds half of a surrogate pair, which is no character"),
        (r'"\ud83d\ud83d\ude00\ude00"', "meta holds half of a surrogate pair, which is no character"),
    ],
)
async def test_an_escape_that_no_text_can_hold_is_refused(sql: Session, text: str, said: str) -> None:
    """The server's own errors name no argument, and are raised late."""
    error = await sql.refusal("select asyncq._check_escapes($1::text::json, 'meta')", text)

    assert (said, "GWBUP", "meta") == (error.message, error.sqlstate, error.column_name)
