"""`_digest`: equal for requests that ask for the same."""

from tests.support.session import Session

DIGEST = "select encode(asyncq._digest($1, $2::text::json), 'hex')"

SAME = [
    ('{"a": 1, "b": [1, 2]}', '{"b":[1,2],"a":1}'),
    ("{}", None),
    ('{"a": 1e2}', '{"a": 100}'),
    ('"\\u00e9"', '"\u00e9"'),
    ('{"a": 1, "a": 2}', '{"a": 2}'),
]
OTHER = [
    ('{"a": 1}', '{"a": 2}'),
    ("[1, 2]", "[2, 1]"),
    ("{}", "null"),
    ("{}", "[]"),
    ("1", '"1"'),
]


async def test_the_way_in_which_a_payload_is_written_does_not_count(sql: Session) -> None:
    """A retry may use another JSON library."""
    for one, other in SAME:
        assert await sql.value(DIGEST, "t", one) == await sql.value(DIGEST, "t", other)


async def test_another_payload_or_task_is_another_request(sql: Session) -> None:
    """No text of one can look like the other."""
    for one, other in OTHER:
        assert await sql.value(DIGEST, "t", one) != await sql.value(DIGEST, "t", other)

    assert await sql.value(DIGEST, "t", "1") != await sql.value(DIGEST, "u", "1")
    assert await sql.value(DIGEST, "t1", "1") != await sql.value(DIGEST, "t", "11")
    assert await sql.value(DIGEST, 't"1', "1") != await sql.value(DIGEST, "t", '"1"')


async def test_a_payload_that_jsonb_cannot_hold_counts_as_its_text(sql: Session) -> None:
    """A payload is json, which accepts more. The add must not fail because of its idempotency key."""
    for text in ('"\\ud800"', "1e400000", '{"a": "\\u0000"}'):
        assert 64 == len(await sql.value(DIGEST, "t", text))

    assert await sql.value(DIGEST, "t", "1e400000") != await sql.value(DIGEST, "t", "1e400001")
