"""`_check_names`: the lists in a policy; test_check_policy.py has all the cases."""

import json

import pytest

from tests.support.session import Session


async def test_names_are_returned_in_nfc_and_in_their_order(sql: Session) -> None:
    """The names of a payload's members are in NFC by then."""
    names = await sql.value("select asyncq._check_names('args_keys', $1::text::jsonb)", '["b","e\u0301","a"]')

    assert ["b", "\u00e9", "a"] == json.loads(names)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ('"a"', """must be a list of strings, got "a\""""),
        ('["a", null]', "must be a list of strings, got null in it"),
        ('["a", "c", 1]', "holds 'c', expected one of 'a', 'b'"),
        ('["a", "a"]', "holds the same string twice"),
    ],
)
async def test_the_message_names_the_fault(sql: Session, given: str, said: str) -> None:
    """The column names the wrong member."""
    error = await sql.refusal("select asyncq._check_names('keys', $1::text::jsonb, '{a,b}')", given)

    assert (f"unique.keys {said}", "unique.keys", "GWBUP") == (error.message, error.column_name, error.sqlstate)
