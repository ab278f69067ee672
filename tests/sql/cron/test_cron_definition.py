"""`_cron_definition`: members are put in, and those that are null taken out."""

import json

from tests.support.session import Session

DEFINE = "select asyncq._cron_definition($1::text::jsonb, $2::text::jsonb)::text"


async def test_members_are_put_in_and_taken_out(sql: Session) -> None:
    """Only top-level members count: null in a payload is a value."""
    found = await sql.value(DEFINE, '{"a": 1, "b": 2, "c": null}', '{"a": null, "payload": {"x": null}}')

    assert {"b": 2, "payload": {"x": None}} == json.loads(found)


async def test_no_changes_are_none(sql: Session) -> None:
    """A definition without members is not null either."""
    assert ["{}", "{}"] == [await sql.value(DEFINE, "{}", None), await sql.value(DEFINE, '{"a": null}', "{}")]


async def test_changes_are_an_object(sql: Session) -> None:
    """Other values are reported as a mistake."""
    assert "options must be an object, got array" == str(await sql.refusal(DEFINE, "{}", "[]"))
