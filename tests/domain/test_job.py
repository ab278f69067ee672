"""The limits of a job, each with the code that SQL raises for it, and the options of a spec."""

from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any

import pytest

from asyncq.domain.deduplication import extra
from asyncq.domain.errors import InvalidJob
from asyncq.domain.job import OPTIONS, Claim, JobKeyMode, JobOptions, JobSpec, check
from asyncq.domain.moment import moment_of
from asyncq.domain.states import JobState
from asyncq.domain.unique import UniquePolicy
from tests.support.asking import RIGHT, WRONG
from tests.support.ids import written

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


class Nowhere(tzinfo):
    """A zone that knows no offset: a datetime with it is as naive as one without."""

    def utcoffset(self, moment: datetime | None) -> None:
        return None


def spec(**fields: Any) -> JobSpec:
    """A spec as its constructor makes it: unchecked."""
    return JobSpec(**{"task": "t", **fields})


def refusal(job: JobSpec) -> InvalidJob:
    """The error of the check of a job."""
    with pytest.raises(InvalidJob) as caught:
        check(job)
    return caught.value


@pytest.mark.parametrize(
    "job",
    [
        spec(task="x" * 128),
        spec(task="ü" * 128),
        spec(task="mail/send now"),
        spec(queue="q" * 128),
        spec(queue=""),
        spec(queue="Default"),
        spec(max_attempts=1),
        spec(max_attempts=32767),
        spec(priority=-32768),
        spec(priority=32767),
        spec(priority=0),
        spec(run_at=NOW),
        spec(run_at=datetime.min.replace(tzinfo=UTC)),
        spec(run_at=NOW.astimezone(timezone(timedelta(hours=-9, minutes=-30)))),
        spec(job_key_mode="replace"),
        spec(job_key_mode=JobKeyMode.UNSAFE_DEDUPE),
        spec(flags=("a", "b" * 128)),
        spec(meta='{"trace": 1}'),
    ],
    ids=str,
)
def test_values_within_the_limits_pass(job: JobSpec) -> None:
    """A limit is the last valid value."""
    assert check(job) is None


@pytest.mark.parametrize(
    ("job", "code", "field", "limit", "length"),
    [
        (spec(task="x" * 129), "GWBID", "identifier", 128, 129),
        (spec(queue="q" * 129), "GWBQN", "queue", 128, 129),
        (spec(job_key="k" * 513), "GWBJK", "job_key", 512, 513),
        (spec(job_key=""), "GWBJK", "job_key", 1, 0),
        (spec(max_attempts=0), "GWBMA", "max_attempts", 1, 0),
        (spec(max_attempts=-3), "GWBMA", "max_attempts", 1, -3),
        (spec(max_attempts=32768), "GWBMA", "max_attempts", 32767, 32768),
        (spec(priority=40000), "22003", "priority", 32767, 40000),
        (spec(priority=-32769), "22003", "priority", -32768, -32769),
        (spec(flags=("f" * 129,)), "22023", "flags", 128, 129),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_value_beyond_a_limit_is_refused_with_the_limit(
    job: JobSpec, code: str, field: str, limit: int, length: int
) -> None:
    """The message names the limit and the length too; the data is for programs."""
    error = refusal(job)

    assert (code, field, limit, length) == (error.code, error.field, error.limit, error.length)
    assert str(abs(length)) in str(error) or "empty" in str(error)


@pytest.mark.parametrize(
    ("job", "code", "field"),
    [
        (spec(task=""), "GWBID", "identifier"),
        (spec(task="a\nb"), "GWBID", "identifier"),
        (spec(task="a\x7f"), "GWBID", "identifier"),
        (spec(task="a\0b"), "GWBID", "identifier"),
        (spec(task="a\ud800"), "GWBID", "identifier"),
        (spec(task=5), "GWBID", "identifier"),
        (spec(task=None), "GWBID", "identifier"),
        (spec(queue="default"), "GWBQN", "queue"),
        (spec(queue="a\0"), "GWBQN", "queue"),
        (spec(queue="\udfff"), "GWBQN", "queue"),
        (spec(queue=5), "GWBQN", "queue"),
        (spec(job_key=5), "GWBJK", "job_key"),
        (spec(job_key="k\0"), "GWBJK", "job_key"),
        (spec(max_attempts="5"), "GWBMA", "max_attempts"),
        (spec(max_attempts=1.0), "GWBMA", "max_attempts"),
        (spec(max_attempts=True), "GWBMA", "max_attempts"),
        (spec(priority="1"), "22003", "priority"),
        (spec(priority=False), "22003", "priority"),
        (spec(run_at=datetime(2026, 1, 1)), "22007", "run_at"),  # noqa: DTZ001 - that is the point
        (spec(run_at=datetime(2026, 1, 1, tzinfo=Nowhere())), "22007", "run_at"),
        (spec(run_at=datetime.max.replace(tzinfo=timezone(timedelta(hours=-5)))), "22008", "run_at"),
        (spec(run_at="2026-01-01T00:00:00Z"), "22007", "run_at"),
        (spec(run_at=1.0), "22007", "run_at"),
        (spec(job_key_mode="keep"), "GWBKM", "job_key_mode"),
        (spec(job_key_mode=""), "GWBKM", "job_key_mode"),
        (spec(job_key_mode=["replace"]), "GWBKM", "job_key_mode"),
        (spec(flags="slow"), "22023", "flags"),
        (spec(flags=(1,)), "22023", "flags"),
        (spec(meta="[]"), "22023", "meta"),
        (spec(meta="{"), "GWBPL", "meta"),
        (spec(meta={"a": 1}), "GWBPL", "meta"),
    ],
    ids=lambda value: ascii(value)[:60],
)
def test_an_impossible_value_is_refused_before_the_round_trip(job: JobSpec, code: str, field: str) -> None:
    """In PostgreSQL the same error would abort the caller's transaction."""
    error = refusal(job)

    assert (code, field) == (error.code, error.field)


def test_an_unknown_job_key_mode_is_refused_without_a_key() -> None:
    """It is always a mistake. The message lists the known ones."""
    error = refusal(spec(job_key_mode="keep"))

    assert "job_key_mode 'keep' is unknown, expected one of 'replace', 'preserve_run_at', 'unsafe_dedupe'" == str(error)


def test_a_naive_time_is_refused_with_the_way_out() -> None:
    """Its time zone is unknown, and a guess would run the job at a wrong hour."""
    error = refusal(spec(run_at=datetime(2026, 1, 1)))  # noqa: DTZ001 - that is the point

    assert "datetime.now(timezone.utc)" in str(error)


def test_the_first_broken_rule_is_reported() -> None:
    """The rules have the order of the arguments, as in SQL."""
    assert "GWBID" == refusal(spec(task="x" * 129, queue="q" * 129, max_attempts=0)).code


# with_options


def test_with_options_changes_only_the_given_options() -> None:
    """The payload and other options stay."""
    changed = spec(payload="[1]", queue="a").with_options(
        queue="b", run_at=NOW, max_attempts=3, priority=-1, flags=["y", "x", "y"], meta={"a": 1}
    )

    assert (
        spec(payload="[1]", queue="b", run_at=NOW, max_attempts=3, priority=-1, flags=("x", "y"), meta='{"a":1}')
        == changed
    )


def test_with_options_leaves_the_spec_as_it_was() -> None:
    """A spec is a value: it can be kept and added again."""
    before = spec()
    before.with_options(priority=5)

    assert spec() == before


def test_none_leaves_an_option_as_it_is() -> None:
    """None means `not given`."""
    assert spec(priority=5, queue="q") == spec(priority=5, queue="q").with_options(priority=None, queue=None)


def test_zero_is_a_priority() -> None:
    """Zero overrides the task's default; None does not."""
    assert 0 == spec(priority=5).with_options(priority=0).priority


def test_no_flags_take_the_flags_away() -> None:
    """An empty list is a list, None is none."""
    assert () == spec(flags=("a",)).with_options(flags=[]).flags


@pytest.mark.parametrize(
    "flags", [{"b", "a"}, ("b", "a"), ["a", "b", "a"], iter("ab")], ids=["set", "tuple", "list", "iterator"]
)
def test_flags_are_any_collection_of_str(flags: Any) -> None:
    """They are a set: sorted, each once."""
    assert ("a", "b") == spec().with_options(flags=flags).flags


@pytest.mark.parametrize("flags", ["slow", b"slow", 5, [1], [None], ["x\0"]], ids=repr)
def test_other_flags_are_refused(flags: Any) -> None:
    """A str would be taken apart into its letters."""
    with pytest.raises(InvalidJob) as caught:
        spec().with_options(flags=flags)

    assert ("22023", "flags") == (caught.value.code, caught.value.field)


@pytest.mark.parametrize("meta", ["x", [1], 5, {"a": float("nan")}, {"a": "\0"}, {"a": object()}], ids=written)
def test_meta_is_an_object_that_json_can_hold(meta: Any) -> None:
    """It is stored beside the payload, under the same rules."""
    with pytest.raises(InvalidJob) as caught:
        spec().with_options(meta=meta)

    assert "meta" == caught.value.field


def test_an_option_that_does_not_exist_is_named() -> None:
    """The error lists the known options: SQL, for example, has `queue_name`."""
    with pytest.raises(TypeError, match=r"no option 'queue_name'; queue= runs"):
        spec().with_options(queue_name="q")


@pytest.mark.parametrize("given", [timedelta(minutes=5), 300, "2030-01-01"])
def test_the_error_for_a_run_at_that_is_no_datetime_names_the_expected_type(given: Any) -> None:
    """Other queues accept a span."""
    with pytest.raises(InvalidJob, match="run_at must be a datetime with a time zone, got") as caught:
        spec().with_options(run_at=given)

    assert isinstance(given, timedelta) == ("(datetime.now(UTC) + it)" in str(caught.value))


def test_the_payload_is_no_option() -> None:
    """It was checked against the handler's types when the spec was made."""
    with pytest.raises(TypeError, match="no option 'payload'"):
        spec().with_options(payload="{}")


def test_with_options_checks_the_limits() -> None:
    """They are checked at the call, which is then in the traceback."""
    with pytest.raises(InvalidJob, match="max_attempts is 0"):
        spec().with_options(max_attempts=0)


def test_the_options_are_those_that_type_checkers_know() -> None:
    """`JobOptions` is read by type checkers, `OPTIONS` at run time, and all are fields of a spec.

    A workflow sets which results a job takes.
    """
    assert OPTIONS == frozenset(JobOptions.__annotations__)
    assert set(JobSpec.__struct_fields__) - {"task", "payload", "returns", "takes", "takes_as"} == OPTIONS


# The words


def test_the_states_are_the_eight_of_the_open_job_spec() -> None:
    """Python, SQL, the command line and JSON have the same states."""
    assert [
        "scheduled",
        "available",
        "active",
        "retryable",
        "pending",
        "completed",
        "cancelled",
        "discarded",
    ] == [str(state) for state in JobState]


def test_the_key_modes_are_those_of_graphile_worker() -> None:
    """SQL that was written for graphile-worker still works."""
    assert ["replace", "preserve_run_at", "unsafe_dedupe"] == [str(mode) for mode in JobKeyMode]


def test_the_order_of_running_is_priority_then_time_then_id() -> None:
    """Equal jobs run first in, first out."""

    def claim(job_id: int, priority: int, run_at: datetime) -> Claim:
        return Claim(job_id, 1, None, 1, 0, 25, 0, priority, 0, moment_of(run_at), 0, 0, None, None, "{}", None, None)

    later = NOW + timedelta(seconds=1)
    jobs = [claim(1, 1, NOW), claim(4, 0, later), claim(3, 0, NOW), claim(2, 0, NOW), claim(5, -1, later)]

    assert [5, 2, 3, 4, 1] == [job.id for job in sorted(jobs, key=lambda job: job.place)]


# Rules about other jobs


@pytest.mark.parametrize(("options", "has_job_key"), RIGHT, ids=str)
def test_options_about_other_jobs_are_taken(options: dict[str, Any], has_job_key: bool) -> None:
    """They work alone, and with a job key where both make sense. Repeated options are idempotent."""
    spec = JobSpec(task="t", job_key="k" if has_job_key else None).with_options(**options)

    assert spec == spec.with_options() == spec.with_options(**options)


@pytest.mark.parametrize(("options", "has_job_key", "code", "field"), WRONG, ids=str)
def test_options_about_other_jobs_that_break_a_rule_are_refused(
    options: dict[str, Any], has_job_key: bool, code: str, field: str
) -> None:
    """They contradict each other, or lack their base. Rules that depend on the payload are checked with it."""
    spec = JobSpec(task="t", job_key="k" if has_job_key else None)
    with pytest.raises(InvalidJob) as caught:
        extra(spec.with_options(**options))

    assert (code, field) == (caught.value.code, caught.value.field)
    assert str(caught.value).startswith(field)


@pytest.mark.parametrize("field", ["subject", "idempotency_key"])
def test_a_key_that_postgresql_cannot_store_is_refused(field: str) -> None:
    """A job key with such text is refused too."""
    for text in ("a\0b", "\ud800"):
        with pytest.raises(InvalidJob, match="cannot store as text") as caught:
            JobSpec(task="t").with_options(**{"singleton": True, field: text})

        assert field == caught.value.field


def test_a_policy_takes_the_place_of_the_one_that_was_there() -> None:
    """A job has one policy: its own one overrides that of the task."""
    policy, other = UniquePolicy(keys=["args"]), UniquePolicy()
    unique = JobSpec(task="t", unique=policy)
    single = JobSpec(task="t", singleton=True, subject="s")

    assert JobSpec(task="t", unique=other) == unique.with_options(unique=other) == single.with_options(unique=other)
    assert JobSpec(task="t", unique=other) == unique.with_options(unique={})
    assert JobSpec(task="t", singleton=True) == unique.with_options(singleton=True)
    assert JobSpec(task="t") == single.with_options(singleton=False)
    assert unique == unique.with_options(singleton=False) == unique.with_options(unique=None, singleton=None)


def test_a_spec_with_an_object_for_a_policy_is_refused() -> None:
    """`with_options` reads objects; a spec that was made by hand holds what it says."""
    spec: Any = JobSpec(task="t", unique={})  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidJob, match="unique must be a UniquePolicy") as caught:
        check(spec)

    assert ("GWBUP", "unique") == (caught.value.code, caught.value.field)
