"""The rules of an add about other jobs; tests/sql/test_dedupe.py compares them with SQL."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from asyncq.domain.deduplication import SINGLETON, extra, options, singleton_key
from asyncq.domain.errors import InvalidJob
from asyncq.domain.job import JobSpec
from asyncq.domain.unique import DEFAULT_STATES, UniquePolicy
from tests.support.vectors import PAGE_DIGEST, as_object


def asked(task: str = "t", payload: str = "{}", **options: Any) -> dict[str, Any]:
    """The rules that an add with these options sends."""
    text = extra(JobSpec(task=task, payload=payload).with_options(**options))
    assert text is not None
    return json.loads(text)


def test_an_add_without_rules_sends_nothing() -> None:
    """Such a job costs nothing."""
    assert extra(JobSpec(task="t", payload="[1]", queue="q", run_at=datetime.now(UTC))) is None


def test_a_policy_has_its_key_and_the_states_that_conflict() -> None:
    """The payload is the JSON text as it will be stored."""
    policy = UniquePolicy(
        keys=["type", "queue", "args"], args_keys=["user_id"], period=timedelta(hours=1), on_conflict="ignore"
    )
    page = asked("email.send", '{"user_id": 42, "template": "welcome"}', queue="notifications", unique=policy)

    assert rf"\x{PAGE_DIGEST}" == page["unique_key"]
    assert ("PT1H", "ignore", False) == (page["period"], page["on_conflict"], "states" in page)


def test_states_that_are_not_the_default_are_sent() -> None:
    """A member that is left out means the default."""
    assert ["completed"] == asked(unique=UniquePolicy(states=["completed"]))["states"]


def test_meta_counts_when_the_policy_names_it() -> None:
    """It is text by then, too."""
    policy = UniquePolicy(keys=["meta"], meta_keys=["m"])
    keys = [asked(unique=policy, meta=meta)["unique_key"] for meta in ({"m": 1}, {"m": 1, "n": 1}, {"m": 2})]

    assert keys[0] == keys[1] != keys[2]


def test_a_job_without_a_key_under_its_policy_is_refused() -> None:
    """It is refused before the round trip."""
    with pytest.raises(InvalidJob) as caught:
        asked(unique={"args_keys": ["x"]})

    assert ("GWBUP", "unique.args_keys") == (caught.value.code, caught.value.field)


def test_a_singleton_is_a_policy_that_ignores() -> None:
    """Its states are the five in which a job has not ended. They are the default, so they are not sent."""
    assert DEFAULT_STATES == SINGLETON.states
    assert {"unique_key": rf"\x{singleton_key('t', 's')}", "on_conflict": "ignore"} == asked(
        singleton=True, subject="s", payload='{"any": 1}'
    )


def test_the_key_of_a_singleton_without_a_subject_is_that_of_the_default_policy() -> None:
    """An add with such a policy can then replace the waiting singleton."""
    assert UniquePolicy().key(type="t") == singleton_key("t")


def test_no_policy_has_the_key_of_a_singleton_with_a_subject() -> None:
    """Its text has a member that the Open Job Spec does not know; and quotes in it are escaped."""
    keys = {singleton_key("t", subject) for subject in (None, "", "t", 'a","type":"t', "null")}

    assert 5 == len(keys)


def test_a_forced_job_has_the_key_and_ignores_conflicts() -> None:
    """Later adds find the job by its key."""
    assert asked(singleton=True) | {"on_conflict": "add"} == asked(singleton=True, force=True)
    assert asked(unique={}) | {"on_conflict": "add", "job_key": "k"} == asked(unique={}, force=True, job_key="k")


def test_an_add_with_rerun_sends_it() -> None:
    """The policy is sent as well."""
    assert asked(singleton=True) | {"rerun": True} == asked(singleton=True, rerun=True)


def test_an_idempotency_key_goes_with_its_window() -> None:
    """The window is in seconds, possibly with a fraction; the default is a day."""
    spec = JobSpec(task="t", idempotency_key="k")

    assert {"idempotency_key": "k", "window_s": 86400.0} == json.loads(extra(spec) or "")
    assert {"idempotency_key": "k", "window_s": 1.5} == json.loads(extra(spec, timedelta(seconds=1.5)) or "")


def test_the_options_of_sql_say_the_same() -> None:
    """A role that may only call enqueue needs them."""
    policy = UniquePolicy(keys=["args"], period="PT1H")
    full = JobSpec(task="t").with_options(meta={"m": 1}, unique=policy, force=True, idempotency_key="k")
    single = JobSpec(task="t").with_options(singleton=True, subject="s", rerun=True)

    assert {
        "meta": {"m": 1},
        "unique": as_object(policy),
        "force": True,
        "idempotency_key": "k",
        "idempotency_window_s": 86400.0,
    } == json.loads(msgspec.json.encode(options(full)))
    assert {"singleton": True, "subject": "s", "rerun": True} == options(single)
    assert {} == options(JobSpec(task="t"))
