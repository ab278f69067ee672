"""`_canonical_members`: all of args or meta, or an object of the members that a policy names."""

import pytest

from tests.support.session import Session
from tests.support.twins import outcomes

CALL = "asyncq._canonical_members(a1::json, a2::jsonb, a3)"


@pytest.mark.parametrize(
    ("value", "names", "path", "expected"),
    [
        ('{"b":1,"a":2}', None, "args", '{"a":2,"b":1}'),
        ('{"b":1,"a":2}', "null", "args", '{"a":2,"b":1}'),
        ('{"b":1,"a":2}', "[]", "args", "{}"),
        ("[1,2]", "[]", "args", "{}"),
        ('{"b":1,"a":2,"c":3}', '["c","b"]', "args", '{"b":1,"c":3}'),
        ('[{"b":1,"a":2}]', '["a"]', "args", '{"a":2}'),
        ('[{"b":1,"a":2}]', "null", "args", '[{"a":2,"b":1}]'),
        ('[{"a":2}]', '["a"]', "meta", "GWBUP unique.meta_keys"),
        ('[{"a":1},{"a":1}]', '["a"]', "args", "GWBUP unique.args_keys"),
        ("[]", '["a"]', "args", "GWBUP unique.args_keys"),
        ("null", '["a"]', "args", "GWBUP unique.args_keys"),
        ('{"a":1}', '["a","b"]', "meta", "GWBUP unique.meta_keys"),
        (r'{"a":1,"b":"\u0000"}', '["a"]', "meta", "GWBUP meta"),
        ('{"e\u0301":1}', '["\u00e9"]', "args", '{"\u00e9":1}'),
    ],
)
async def test_only_the_named_members_count(
    sql: Session, value: str, names: str | None, path: str, expected: str
) -> None:
    """All named members must exist."""
    assert [expected] == await outcomes(sql, CALL, [value], [names], [path])


async def test_the_message_names_the_first_member_that_is_missing(sql: Session) -> None:
    """The members have the order of the policy."""
    error = await sql.refusal("""select asyncq._canonical_members('{"b":1}', '["b","z","a"]', 'args')""")

    assert "unique.args_keys names 'z', which args does not hold" == error.message
