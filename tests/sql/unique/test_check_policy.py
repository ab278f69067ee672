"""`_check_policy`: the same policies as asyncq/domain/unique.py takes and refuses, with the same code and field."""

import json
from random import Random
from typing import Any

import pytest

from asyncq.domain.errors import InvalidJob
from asyncq.domain.unique import UniquePolicy
from tests.support.session import Session
from tests.support.twins import differences, outcome, outcomes
from tests.support.vectors import BAD_PERIODS, BAD_POLICIES, DEFAULTS, PERIODS, POLICIES, as_object

CALL = "asyncq._check_policy(a1::jsonb)::text"


def as_text(policy: Any) -> str:
    """A policy as jsonb shows it, as far as the order of members matters."""
    return json.dumps(policy, sort_keys=True)


def in_python(policy: Any) -> str:
    """The result of Python."""
    return outcome(lambda: as_text(as_object(UniquePolicy.parse(policy))))


async def in_sql(sql: Session, policies: list[Any]) -> list[str]:
    """The results of SQL."""
    found = await outcomes(sql, CALL, [json.dumps(policy) for policy in policies])
    return [as_text(json.loads(text)) if text and text.startswith("{") else str(text) for text in found]


async def test_a_policy_has_the_defaults_of_the_spec(sql: Session) -> None:
    """Null is as missing."""
    expected = [
        as_text(DEFAULTS | {name: item for name, item in policy.items() if item is not None}) for policy in POLICIES
    ]

    assert [] == differences(POLICIES, expected, await in_sql(sql, POLICIES))


async def test_a_policy_that_breaks_a_rule_is_refused_with_the_member_that_does(sql: Session) -> None:
    """The same code and field as in Python."""
    policies = [policy for policy, _ in BAD_POLICIES]

    assert [] == differences(policies, [f"GWBUP {field}" for _, field in BAD_POLICIES], await in_sql(sql, policies))


async def test_of_several_unknown_members_the_first_one_is_named(sql: Session) -> None:
    """The message is that of Python, although jsonb sorts shorter names first."""
    policy = {"zz": 1, "abc": 1, "keys": []}
    with pytest.raises(InvalidJob) as caught:
        UniquePolicy.parse(policy)
    error = await sql.refusal("select asyncq._check_policy($1::text::jsonb)", json.dumps(policy))

    assert str(caught.value) == error.message
    assert error.message.startswith("unique has no member 'abc'")


async def test_periods_are_checked(sql: Session) -> None:
    """By `_period`."""
    policies = [{"period": period} for period in (*PERIODS, *BAD_PERIODS)]

    assert [] == differences(policies, [in_python(policy) for policy in policies], await in_sql(sql, policies))


async def test_no_policy_is_null(sql: Session) -> None:
    """A missing policy and JSON's null both count."""
    assert (None, None) == tuple(await sql.row("select asyncq._check_policy(null), asyncq._check_policy('null')"))


async def test_a_checked_policy_stays_as_it_is(sql: Session) -> None:
    """It may be checked once for many jobs, or again."""
    once = await in_sql(sql, POLICIES)

    assert once == await in_sql(sql, [json.loads(policy) for policy in once])


async def test_python_and_sql_agree_on_policies_of_all_kinds(sql: Session) -> None:
    """3,000 by chance, some with several faults."""
    chance = Random()
    policies = [some_policy(chance) for _ in range(3000)]

    assert [] == differences(policies, [in_python(policy) for policy in policies], await in_sql(sql, policies))


def some_policy(chance: Random) -> dict[str, Any]:
    """A policy of members that are mostly right."""
    odd: list[Any] = [None, 0, "", "x", [], {}, [None], ["x"], ["\u00e9", "e\u0301"], ["type", "type"], True]
    right: dict[str, list[Any]] = {
        "keys": [["type"], ["args", "queue"], ["meta"], ["meta", "args"], []],
        "args_keys": [["a"], ["b", "a"], [], ["e\u0301"], [" "]],
        "meta_keys": [["m"], ["m", "n"]],
        "states": [["active"], ["completed", "available"], []],
        "period": ["PT1H", "P1Y2M3W4DT5H6M7.89S", "P7D"],
        "on_conflict": ["reject", "ignore", "replace", "replace_except_schedule"],
        "unknown": [None, 1],
    }
    chosen = [name for name in right if chance.random() < (0.02 if name == "unknown" else 0.5)]
    return {name: chance.choice(odd if chance.random() < 0.1 else right[name]) for name in chosen}
