"""Unique policies: accepted values, and the key of a job."""

import hashlib
import pickle
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from asyncq.domain.errors import InvalidJob
from asyncq.domain.states import JobState
from asyncq.domain.unique import OnConflict, UniquePolicy
from tests.support.ids import written
from tests.support.vectors import (
    ALL_STATES,
    BAD_PERIODS,
    BAD_POLICIES,
    DEFAULTS,
    KEYED,
    KEYLESS,
    PAGE,
    PAGE_CANONICAL,
    PAGE_DIGEST,
    PERIODS,
    POLICIES,
    Keyed,
    Refused,
    as_object,
)


class Email(msgspec.Struct):
    user_id: int
    template: str = "welcome"


def refusal(policy: Any) -> InvalidJob:
    """The error for a policy that breaks a rule."""
    with pytest.raises(InvalidJob) as caught:
        UniquePolicy.parse(policy)
    return caught.value


def keyless(policy: UniquePolicy, **job: Any) -> InvalidJob:
    """The error for a job without a key."""
    with pytest.raises(InvalidJob) as caught:
        policy.key(**job)
    return caught.value


# Policies


@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_a_policy_has_the_defaults_of_the_spec(policy: dict[str, Any]) -> None:
    """Null counts as missing: some clients send null for members that their user left out."""
    given = {name: value for name, value in policy.items() if value is not None}

    assert DEFAULTS | given == as_object(UniquePolicy.parse(policy))


@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_a_policy_is_the_same_as_an_object_and_as_arguments(policy: dict[str, Any]) -> None:
    """Lists become tuples, so that policies can be compared, hashed and shared."""
    given = {name: value for name, value in policy.items() if value is not None}
    parsed, made = UniquePolicy.parse(policy), UniquePolicy(**given)

    assert (made, hash(made)) == (parsed, hash(parsed))
    assert made == UniquePolicy.parse(as_object(made)) == pickle.loads(pickle.dumps(made))


@pytest.mark.parametrize(("policy", "field"), BAD_POLICIES, ids=str)
def test_a_policy_that_breaks_a_rule_is_refused_with_the_member_that_does(policy: Any, field: str) -> None:
    """A typo that is ignored would disable deduplication unnoticed."""
    error = refusal(policy)

    assert ("GWBUP", field) == (error.code, error.field)
    assert str(error).startswith(field)


@pytest.mark.parametrize("period", BAD_PERIODS, ids=ascii)
def test_a_period_that_is_no_duration_is_refused(period: str) -> None:
    """The same durations as in `domain/duration.py`, under the policy's code."""
    error = refusal({"period": period})

    assert ("GWBUP", "unique.period") == (error.code, error.field)


@pytest.mark.parametrize("period", PERIODS)
def test_a_period_stays_as_it_was_written(period: str) -> None:
    """A reader of the database finds the original text."""
    assert period == UniquePolicy(period=period).period


@pytest.mark.parametrize(("delta", "text"), [(timedelta(hours=1), "PT1H"), (timedelta(days=7, seconds=1), "P7DT1S")])
def test_a_period_may_be_a_timedelta(delta: timedelta, text: str) -> None:
    """Python's own way to give a time with its unit."""
    assert UniquePolicy(period=text) == UniquePolicy(period=delta)


@pytest.mark.parametrize("delta", [timedelta(seconds=-1), timedelta(days=36_601)], ids=str)
def test_a_timedelta_beyond_the_limits_is_refused(delta: timedelta) -> None:
    """The same limits as for text."""
    assert "unique.period" == refusal({"period": delta}).field


@pytest.mark.parametrize("number", [3600, 3600.0, True, 0])
def test_a_number_is_no_period(number: Any) -> None:
    """Seconds or milliseconds? The spec allows both as extensions, so that each reader guesses."""
    assert "a number has no unit" in str(refusal({"period": number}))


@pytest.mark.parametrize("name", ["keys", "args_keys", "meta_keys", "states"])
@pytest.mark.parametrize("given", ["type", b"type", 5, {"type": 1}, [b"a"]], ids=repr)
def test_a_list_is_not_a_string_and_holds_nothing_but_strings(name: str, given: Any) -> None:
    """For Python a bare string is a list of letters."""
    with pytest.raises(InvalidJob) as caught:
        UniquePolicy(**{name: given})

    assert f"unique.{name}" == caught.value.field


@pytest.mark.parametrize("name", ["a\0", "\ud800"], ids=ascii)
def test_a_name_that_postgresql_cannot_store_is_refused(name: str) -> None:
    """The policy is stored, but the error must not come from the database."""
    assert ("GWBUP", "unique.args_keys") == ((error := refusal({"args_keys": [name]})).code, error.field)


def test_any_collection_of_strings_is_a_list() -> None:
    """Sets, generators and enums are what programs have at hand."""
    policy = UniquePolicy(
        keys={"args"}, args_keys=(name for name in "ab"), states=[JobState.ACTIVE], on_conflict="ignore"
    )

    assert (("args",), ("a", "b"), (JobState.ACTIVE,), OnConflict.IGNORE) == (
        policy.keys,
        policy.args_keys,
        policy.states,
        policy.on_conflict,
    )


def test_an_unknown_argument_is_a_type_error() -> None:
    """Python raises it for every unknown keyword."""
    with pytest.raises(TypeError, match="kyes"):
        UniquePolicy(kyes=["type"])  # pyright: ignore[reportCallIssue]


def test_the_states_of_a_policy_are_states() -> None:
    """They are compared with what the rows say."""
    assert tuple(map(JobState, ALL_STATES)) == UniquePolicy(states=ALL_STATES).states


# Keys


@pytest.mark.parametrize("vector", KEYED.values(), ids=KEYED)
def test_the_canonical_text_of_a_job(vector: Keyed) -> None:
    """Two jobs are the same if these texts are."""
    policy = UniquePolicy.parse(vector.policy)

    assert vector.canonical == policy.canonical(**vector.job)
    assert hashlib.sha256(vector.canonical.encode()).hexdigest() == policy.key(**vector.job)


@pytest.mark.parametrize("vector", [vector for vector in KEYED.values() if vector.digest], ids=lambda it: it.canonical)
def test_the_key_of_a_job_is_that_of_a_third_implementation(vector: Keyed) -> None:
    """Other clients of the same spec must compute the same key."""
    assert vector.digest == UniquePolicy.parse(vector.policy).key(**vector.job)


@pytest.mark.parametrize("vector", KEYLESS.values(), ids=KEYLESS)
def test_a_job_without_a_key_is_refused_with_the_field_at_fault(vector: Refused) -> None:
    """Otherwise jobs that only lack the same field would be equal."""
    error = keyless(UniquePolicy.parse(vector.policy), **vector.job)

    assert ("GWBUP", vector.field) == (error.code, error.field)


def test_the_message_has_the_place_of_the_fault() -> None:
    """Payloads are large, and messages must not repeat them."""
    policy = UniquePolicy(keys=["args"])
    error = keyless(policy, type="t", args={"rows": [{"id": 1}, {"id": 2**63 - 1}]})

    said = "is an integer that the numbers of JSON cannot hold exactly (above 2^53); send it as a string"
    assert f"args.rows.1.id {said}" == str(error)


@pytest.mark.parametrize(
    "args",
    [
        '{"user_id": 42, "template": "welcome"}',
        {"user_id": 42, "template": "welcome"},
        [{"user_id": 42.0}],
        Email(42),
        [Email(42)],
        msgspec.Raw(b'{"user_id":42}'),
    ],
    ids=written,
)
def test_args_are_json_text_or_a_value(args: Any) -> None:
    """Both give the key of the stored text."""
    policy = UniquePolicy.parse(PAGE)

    assert PAGE_CANONICAL == policy.canonical(type="email.send", queue="notifications", args=args)
    assert PAGE_DIGEST == policy.key(type="email.send", queue="notifications", args=args)


def test_meta_is_json_text_or_a_value() -> None:
    """The args may be either, too."""
    policy = UniquePolicy(keys=["meta"], meta_keys=["tenant"])

    assert policy.canonical(type="t", meta='{"tenant":"a"}') == policy.canonical(type="t", meta={"tenant": "a", "x": 1})


@pytest.mark.parametrize("args", ["nonsense", "", "{", '{"a":NaN}', "[1e]", "\ud800"], ids=ascii)
def test_args_that_are_no_json_are_refused(args: str) -> None:
    """The code is that of the policy, since the key could not be computed."""
    error = keyless(UniquePolicy(keys=["args"]), type="t", args=args)

    assert ("GWBUP", "args") == (error.code, error.field)


@pytest.mark.parametrize(
    "args", [float("nan"), {"a": float("inf")}, object(), {"a": "\0"}, {"a": "\ud800"}], ids=written
)
def test_values_that_are_no_json_are_refused(args: Any) -> None:
    """NaN would be written as null, and two jobs without a number would be one."""
    error = keyless(UniquePolicy(keys=["args"]), type="t", args=args)

    assert ("GWBUP", "args") == (error.code, error.field)


@pytest.mark.parametrize("text", ["a\0", "\ud800", None, 5], ids=ascii)
@pytest.mark.parametrize("field", ["type", "queue"])
def test_a_type_and_a_queue_are_texts_that_can_be_stored(field: str, text: Any) -> None:
    """A job with such a text could not be added either."""
    job = {"type": "t", field: text}
    if field == "queue" and text is None:
        return
    error = keyless(UniquePolicy(keys=["queue"]), **job)

    assert ("GWBUP", field) == (error.code, error.field)


def test_args_that_do_not_count_are_not_read() -> None:
    """A policy on the type alone costs nothing for large payloads, and refuses none."""
    assert '{"type":"t"}' == UniquePolicy().canonical(type="t", args="no json")
