"""`_extras`: options that few jobs have, as one column."""

import json
from datetime import datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest

from asyncq.domain import deduplication
from asyncq.domain.errors import ConfigurationError, InvalidJob
from asyncq.domain.job import JobSpec
from asyncq.domain.time_limit import Keep, Timeout
from tests.support.session import Session

LIMITS: list[dict[str, Any]] = [{"timeout_s": 30}, {"soft_s": 0.5}, {"timeout_s": 31622400, "soft_s": 0.000001}]


@pytest.mark.parametrize("options", LIMITS, ids=str)
async def test_limits_are_stored_in_one_column(sql: Session, options: dict[str, Any]) -> None:
    """SQL and Python store the same object."""
    await sql.rows("select asyncq.add_job('t', options := $1::text::jsonb)", json.dumps(options))
    spec = JobSpec(task="t", timeout=Timeout(soft=options.get("soft_s"), hard=options.get("timeout_s")))
    sent = json.loads(deduplication.extra(spec) or "")

    assert options == json.loads(await sql.value("select extras::text from asyncq._jobs")) == sent["extras"]
    assert options == deduplication.options(spec)


@pytest.mark.parametrize(("keep", "keep_s"), [("1 hour", 3600), (False, 0)])
async def test_a_time_for_which_a_job_is_kept_is_stored_in_it_too(sql: Session, keep: Keep, keep_s: float) -> None:
    """False is 0, which another time of the task does not replace."""
    options = {"keep_s": keep_s}
    await sql.rows("select asyncq.add_job('t', options := $1::text::jsonb)", json.dumps(options))
    spec = JobSpec(task="t").with_options(keep=keep)
    sent = json.loads(deduplication.extra(spec) or "")

    assert options == json.loads(await sql.value("select extras::text from asyncq._jobs")) == sent["extras"]
    assert options == deduplication.options(spec)


async def test_a_job_without_limits_has_none(sql: Session) -> None:
    """A null costs no byte."""
    await sql.rows("""select asyncq.add_job('t', options := '{"timeout_s": null, "meta": {}}')""")

    assert await sql.value("select extras is null from asyncq._jobs")
    assert "{}" == await sql.value("select asyncq._extras('{\"singleton\": true}')")


RANGE = "expected more than 0, at most 31622400"
BAD: list[tuple[dict[str, Any], str, str]] = [
    ({"timeout_s": 0}, "timeout_s", f"timeout_s is 0, {RANGE}"),
    ({"timeout_s": -1}, "timeout_s", f"timeout_s is -1, {RANGE}"),
    ({"timeout_s": 31622401}, "timeout_s", f"timeout_s is 31622401, {RANGE}"),
    ({"timeout_s": "30 s"}, "timeout_s", "timeout_s must be a number of seconds"),
    ({"timeout_s": True}, "timeout_s", "timeout_s must be a number of seconds"),
    ({"soft_s": 0}, "soft_s", f"soft_s is 0, {RANGE}"),
    ({"soft_s": []}, "soft_s", "soft_s must be a number of seconds"),
    ({"timeout_s": 30, "soft_s": 30}, "soft_s", "soft_s is 30, expected less than timeout_s, 30"),
    ({"timeout_s": "x", "soft_s": 30}, "timeout_s", "timeout_s must be a number of seconds"),
    ({"expires_s": 0}, "expires_s", f"expires_s is 0, {RANGE}"),
    ({"keep_s": -1}, "keep_s", f"keep_s is -1, {RANGE}"),
    ({"keep_s": 31622401}, "keep_s", f"keep_s is 31622401, {RANGE}"),
    ({"keep_s": True}, "keep_s", "keep_s must be a number of seconds"),
    ({"expires_s": "5 min"}, "expires_s", "expires_s must be a number of seconds"),
]


@pytest.mark.parametrize(("options", "column", "said"), BAD, ids=str)
async def test_a_bad_limit_is_refused_as_in_python(
    sql: Session, options: dict[str, Any], column: str, said: str
) -> None:
    """The code is the same, and no job is added."""
    error = await sql.refusal("select asyncq.add_job('t', options := $1::text::jsonb)", json.dumps(options))
    with pytest.raises((InvalidJob, ConfigurationError)) as caught:
        JobSpec(task="t").with_options(**in_python(options))

    assert ("GWBDU", column, said) == (error.sqlstate, error.column_name, error.message)
    assert 0 == await sql.value("select count(*) from asyncq._jobs")
    assert column.partition("_")[0] in str(caught.value)


def in_python(options: dict[str, Any]) -> dict[str, Any]:
    """The same limits for Python, where text with a unit is a duration."""
    (name, value), *others = options.items()
    if others or name == "soft_s":
        return {"timeout": Timeout(soft=options["soft_s"], hard=options.get("timeout_s"))}
    return {name.removesuffix("_s"): "x" if isinstance(value, str) else value}


MOMENT = datetime(2040, 1, 31, 4, tzinfo=timezone(timedelta(hours=2)))


@pytest.mark.parametrize("option", ["expires", "deadline"])
@pytest.mark.parametrize("limit", [timedelta(minutes=5), MOMENT], ids=["duration", "moment"])
async def test_sql_and_python_send_the_same_moment(sql: Session, option: str, limit: Any) -> None:
    """It is a number of seconds, or a time with a zone."""
    spec = JobSpec(task="t", **{option: limit})
    options = msgspec.json.encode(deduplication.options(spec)).decode()
    await sql.rows("select asyncq.add_job('t', options := $1::text::jsonb)", options)
    stored = await sql.row(f"select {option}_at as at, created_at from asyncq._jobs")

    assert json.loads(options) == json.loads(deduplication.extra(spec) or "")
    assert stored["at"] == (stored["created_at"] + limit if isinstance(limit, timedelta) else limit)


@pytest.mark.parametrize("option", ["expires", "deadline"])
async def test_a_limit_is_seconds_or_a_moment(sql: Session, option: str) -> None:
    """Two answers are an error, not a rule."""
    options = json.dumps({f"{option}_s": 5, f"{option}_at": "2040-01-31T04:00:00Z"})
    error = await sql.refusal("select asyncq.add_job('t', options := $1::text::jsonb)", options)

    assert ("GWBDU", f"{option}_s goes without {option}_at, which says the same") == (error.sqlstate, error.message)


@pytest.mark.parametrize("option", ["expires", "deadline"])
async def test_a_moment_without_a_zone_is_refused(sql: Session, option: str) -> None:
    """Python refuses it with the same code."""
    options = json.dumps({f"{option}_at": "2040-01-31T04:00:00"})
    error = await sql.refusal("select asyncq.add_job('t', options := $1::text::jsonb)", options)
    with pytest.raises(InvalidJob, match=f"{option} 2040-01-31T04:00:00 has no time zone") as caught:
        JobSpec(task="t").with_options(**{option: MOMENT.replace(tzinfo=None)})  # type: ignore[arg-type]

    assert ("22007", f"{option}_at") == (error.sqlstate, error.column_name)
    assert ("22007", option) == (caught.value.code, caught.value.field)
