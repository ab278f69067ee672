"""`add_job` turns a task, a name or a spec, with a payload and options, into one checked spec."""

import gc
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from asyncq.domain.adding import NOTHING, accepted, make_spec, make_specs
from asyncq.domain.errors import DuplicateJob, InvalidJob, UnknownTask
from asyncq.domain.job import Added, JobSpec
from asyncq.domain.states import JobState
from asyncq.domain.task import Registry, task
from tests.support.ids import written


class Email(msgspec.Struct):
    to: str
    subject: str = "none"


@task(queue="mail", max_attempts=5, flags=["slow"])
async def send_email(email: Email) -> None:
    """A task with a payload and defaults."""


@task
async def rollup(day: str, dry_run: bool = False) -> None:
    """A task with fields."""


@task
async def tidy() -> None:
    """A task without a payload."""


EMAIL = Email("a@b.c")
SENT = JobSpec(
    task="send_email", payload='{"to":"a@b.c","subject":"none"}', queue="mail", max_attempts=5, flags=("slow",)
)


def spec(
    what: Any,
    payload: Any = NOTHING,
    *,
    known: list[Any] | None = None,
    strict: bool = True,
    max_payload: int = 1000,
    **options: Any,
) -> JobSpec:
    """The spec of a call, on a client that was given tasks or none."""
    registry = None if known is None else Registry(known)
    return make_spec(what, payload, options, registry=registry, strict=strict, max_payload=max_payload)


# A task


def test_a_task_with_its_payload() -> None:
    """It has the defaults of the task."""
    assert SENT == spec(send_email, EMAIL)


def test_a_task_with_its_first_field() -> None:
    """One value fills the first parameter; more of them need `rollup.job(...)`."""
    assert JobSpec(task="rollup", payload='{"day":"x"}') == spec(rollup, "x")


def test_a_task_without_a_payload() -> None:
    """Its payload is the empty object."""
    assert JobSpec(task="tidy", payload="{}") == spec(tidy)


@task
async def count(row: dict[str, Any], dry_run: bool = False) -> None:
    """A task whose first parameter is an object."""


@pytest.mark.parametrize(
    ("what", "payload"),
    [
        (rollup, {"day": "2030-01-31"}),
        (rollup, {"day": "2030-01-31", "dry_run": True}),
        (count, {"row": {"a": 1}, "dry_run": True}),
    ],
)
def test_arguments_by_name_are_not_taken_for_the_first_one(what: Any, payload: dict[str, Any]) -> None:
    """The arguments might fit by accident, and the handler would get wrong values."""
    with pytest.raises(InvalidJob) as caught:
        spec(what, payload)

    name = min(payload)
    assert f"pass them to the task, as in add_job({what.name}.job({name}=...))" in str(caught.value)
    assert "GWBPL" == caught.value.code


@pytest.mark.parametrize("row", [{}, {"dry_run": True}, {"row": 1, "other": 2}, {1: 2}])
def test_an_object_that_is_no_set_of_arguments_is_the_first_one(row: dict[Any, Any]) -> None:
    """Its keys may be anything."""
    assert count.job(row) == spec(count, row)


def test_an_object_that_looks_like_arguments_can_be_the_first_one() -> None:
    """Given by its own name."""
    assert '{"row":{"row":1}}' == count.job(row={"row": 1}).payload == count.job({"row": 1}).payload


def test_none_is_a_payload_of_a_task() -> None:
    """NOTHING is none: here None does not fit the type."""
    with pytest.raises(InvalidJob, match="Expected `object`, got `null`"):
        spec(send_email, None)


@pytest.mark.parametrize(
    ("what", "payload", "said"),
    [
        (send_email, NOTHING, "missing a required argument: 'email'"),
        (send_email, {"to": 5}, r"Expected `str`, got `int` - at `\$.to`"),
        (tidy, {}, "too many positional arguments"),
        (rollup, 5, r"Expected `str`, got `int` - at `\$.day`"),
    ],
)
def test_a_payload_that_does_not_fit_its_task_is_refused(what: Any, payload: Any, said: str) -> None:
    """It is refused before the round trip."""
    with pytest.raises(InvalidJob, match=said):
        spec(what, payload)


# A name


def test_a_name_with_its_payload() -> None:
    """A client without tasks accepts any name and any payload, and knows no defaults."""
    assert JobSpec(task="send_email", payload='{"to":5}') == spec("send_email", {"to": 5})


@pytest.mark.parametrize("payload", [NOTHING, None], ids=["nothing", "none"])
def test_a_name_without_a_payload(payload: Any) -> None:
    """By name None means no payload, as null does in SQL."""
    assert JobSpec(task="x", payload="{}") == spec("x", payload)


@pytest.mark.parametrize("payload", [0, "", [], False], ids=repr)
def test_an_empty_payload_is_a_payload(payload: Any) -> None:
    """Only None or a missing argument means none."""
    assert msgspec.json.encode(payload).decode() == spec("x", payload).payload


def test_a_known_name_has_the_defaults_and_the_type_of_its_task() -> None:
    """The client was given the tasks."""
    assert SENT == spec("send_email", {"to": "a@b.c", "subject": "none"}, known=[send_email])
    with pytest.raises(InvalidJob, match=r"Expected `str`, got `int` - at `\$.to`"):
        spec("send_email", {"to": 5}, known=[send_email])


def test_an_unknown_name_is_refused_where_names_are_known() -> None:
    """The error suggests the nearest name."""
    with pytest.raises(UnknownTask, match="did you mean 'send_email'"):
        spec("send_emial", {}, known=[send_email])


def test_an_unknown_name_is_taken_where_others_may_know_it() -> None:
    """A handler may add jobs of tasks that another worker runs."""
    assert JobSpec(task="other", payload="{}") == spec("other", known=[send_email], strict=False)
    assert SENT == spec("send_email", EMAIL, known=[send_email], strict=False)


@pytest.mark.parametrize("what", [tidy, tidy.job()], ids=["task", "spec"])
def test_a_task_that_the_client_was_not_given_is_refused(what: Any) -> None:
    """Its name would be refused too."""
    with pytest.raises(UnknownTask):
        spec(what, known=[send_email])


def test_no_tasks_at_all_are_tasks_too() -> None:
    """An empty list knows no name; None takes any."""
    with pytest.raises(UnknownTask):
        spec("x", known=[])


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 129, "a\0b"], ids=ascii)
def test_a_name_that_no_job_can_have_is_refused(name: str) -> None:
    """With the code of SQL."""
    with pytest.raises(InvalidJob) as caught:
        spec(name)

    assert ("GWBID", "identifier") == (caught.value.code, caught.value.field)


@pytest.mark.parametrize("what", [5, None, b"x", rollup.handler, Email], ids=written)
def test_an_object_that_is_no_task_name_or_spec_is_refused(what: Any) -> None:
    """It is usually a function without its decorator."""
    with pytest.raises(InvalidJob, match="is the function decorated with @task"):
        spec(what)


@pytest.mark.filterwarnings("error")
def test_a_called_task_has_its_own_error() -> None:
    """Celery tasks are called like this for a signature. The refused coroutine must not cause a warning either."""
    with pytest.raises(InvalidJob, match=r"calling a task does not add a job: write add_job\(task\.job"):
        spec(rollup(day="x"))
    gc.collect()


# A spec


def test_a_spec_is_added_as_it_is() -> None:
    """Its fields and options are kept."""
    job = rollup.job(day="x", dry_run=True).with_options(priority=5)

    assert job == spec(job)


def test_a_bulk_add_takes_and_refuses_what_single_adds_do() -> None:
    """It checks the same limits in the same order."""
    registry = Registry([send_email, tidy])
    jobs: list[Any] = [SENT, tidy, "tidy", tidy.job().with_options(job_key="k")]
    how = {"registry": registry, "strict": True, "max_payload": 32}

    assert [make_spec(job, NOTHING, {}, **how) for job in jobs] == make_specs(jobs, **how)
    for bad, field in [
        (JobSpec(task="tidy", payload="{"), "payload"),
        (JobSpec(task="tidy", payload='"' + "x" * 32 + '"'), "payload"),
        (JobSpec(task="tidy", queue="default"), "queue"),
        (JobSpec(task="tidy", force=True), "force"),
        (7, "identifier"),
    ]:
        with pytest.raises(InvalidJob) as caught:
            make_specs([*jobs, bad, JobSpec(task="tidy", priority=40_000)], **how)
        assert field == caught.value.field
    with pytest.raises(UnknownTask):
        make_specs([JobSpec(task="nobody")], **how)


@pytest.mark.parametrize("one", [rollup, rollup.job("2030-01-31"), "rollup"])
def test_a_bulk_add_takes_no_single_job(one: Any) -> None:
    """The error is a sentence, not Python's message about an object that is no list."""
    with pytest.raises(TypeError, match="add_jobs takes a list of jobs; add_job adds one"):
        make_specs(one, registry=None, strict=True, max_payload=1000)


def test_a_spec_takes_no_payload() -> None:
    """It has a payload already."""
    with pytest.raises(TypeError, match="a spec already has its payload"):
        spec(rollup.job("x"), {})


@pytest.mark.parametrize(
    ("job", "field"),
    [
        (JobSpec(task=""), "identifier"),
        (JobSpec(task="x", payload="{"), "payload"),
        (JobSpec(task="x", payload='"\\u0000"'), "payload"),
        (JobSpec(task="x", payload={"a": 1}), "payload"),  # type: ignore[arg-type]
        (JobSpec(task="x", queue="default"), "queue"),
        (JobSpec(task="x", flags="slow"), "flags"),  # type: ignore[arg-type]
        (JobSpec(task="x", meta="[]"), "meta"),
    ],
    ids=str,
)
def test_a_spec_that_was_made_by_hand_is_checked(job: JobSpec, field: str) -> None:
    """Its constructor checks nothing; the server's refusal would abort the caller's transaction."""
    with pytest.raises(InvalidJob) as caught:
        spec(job)

    assert field == caught.value.field


# Policies


def test_an_add_in_any_form_has_the_policy_of_its_task() -> None:
    """An add by name has it if the task is known."""
    single = task(singleton=True)(rollup.handler)
    jobs = [spec(single, "x"), spec("rollup", {"day": "x"}, known=[single]), spec(single.job("x"))]

    assert [True] * 3 == [job.singleton for job in jobs]
    assert not spec("rollup", {"day": "x"}).singleton


def test_options_about_other_jobs_apply_to_each_form() -> None:
    """They work for tasks, names and specs, like the other options."""
    for what in ((send_email, EMAIL), ("send_email", {}), (rollup.job("x"), NOTHING)):
        job = spec(*what, singleton=True, subject="s", rerun=True, idempotency_key="k")

        assert (True, "s", True, False, "k") == (job.singleton, job.subject, job.rerun, job.force, job.idempotency_key)


def test_a_rejected_add_becomes_an_error() -> None:
    """Every other answer is returned."""
    others = [
        Added(1),
        Added(1, "deduplicated", 1, JobState.ACTIVE),
        Added(1, "updated", 1, JobState.SCHEDULED),
        Added(2, "added", 1, JobState.RETRYABLE),
    ]
    with pytest.raises(DuplicateJob) as caught:
        accepted(Added(1, "rejected", 1, JobState.ACTIVE))

    assert (1, JobState.ACTIVE) == (caught.value.existing_id, caught.value.existing_state)
    assert others == [accepted(added) for added in others]


# Options and limits


@pytest.mark.parametrize("what", [(send_email, EMAIL), ("send_email", {}), (rollup.job("x"), NOTHING)])
def test_options_apply_to_each_form(what: tuple[Any, Any]) -> None:
    """They override the defaults of the task and those of the spec."""
    at = datetime(2026, 11, 20, tzinfo=UTC)
    job = spec(*what, queue="q", run_at=at, max_attempts=1, priority=0, flags=["a"], meta={"a": 1})

    assert ("q", at, 1, 0, ("a",), '{"a":1}') == (
        job.queue,
        job.run_at,
        job.max_attempts,
        job.priority,
        job.flags,
        job.meta,
    )


def test_a_parameter_of_the_task_given_as_an_option_is_shown_its_place() -> None:
    """Many users try it first. "day is missing" would not help if day was given."""
    with pytest.raises(TypeError, match=r"no option 'day'.*add_job\(rollup\.job\(day=\.\.\.\)\)"):
        spec(rollup, day="2026-11-20")


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("delay", "run_at= is the time before which it does not start: datetime.now"),
        ("countdown", "run_at= is the time before"),
        ("max_retries", "max_attempts= counts all attempts"),
        ("time_limit", "timeout= limits the time of one attempt"),
        ("key", "job_key= names a job"),
        ("prioritty", "did you mean 'priority'"),
    ],
)
def test_an_option_of_another_library_gets_a_suggestion(option: str, said: str) -> None:
    """It works for tasks, names and specs."""
    for what in (rollup, "rollup", JobSpec(task="rollup")):
        with pytest.raises(TypeError, match=f"no option '{option}'; {said}"):
            spec(what, **{option: 5})


async def test_a_spec_that_is_awaited_says_how_to_add_it() -> None:
    """`await task.job(...)` looks like an add."""
    with pytest.raises(TypeError, match=r"adds no job: write `await client.add_job\(task.job\(...\)\)`"):
        await JobSpec(task="rollup")  # type: ignore[misc]


def test_an_option_that_breaks_a_rule_is_refused() -> None:
    """The error has its field."""
    with pytest.raises(InvalidJob, match="priority is 40000"):
        spec("x", priority=40000)


@pytest.mark.parametrize(
    "what",
    [("x", "ü" * 50), (rollup, "ü" * 45), (JobSpec(task="x", payload='"' + "ü" * 50 + '"'), NOTHING)],
    ids=["name", "task", "spec"],
)
def test_the_limit_of_the_payload_counts_bytes_in_each_form(what: tuple[Any, Any]) -> None:
    """102 bytes are 52 characters here: the limit is about what travels and is stored."""
    with pytest.raises(InvalidJob) as caught:
        spec(*what, max_payload=99)

    assert ("GWBPL", "payload", 99) == (caught.value.code, caught.value.field, caught.value.limit)
    assert 100 <= (caught.value.length or 0)


def test_a_payload_of_exactly_the_limit_passes() -> None:
    """The limit is 102 bytes here."""
    assert 52 == len(spec("x", "ü" * 50, max_payload=102).payload)
