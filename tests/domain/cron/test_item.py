"""`CronItem`: the values that it accepts, its error messages, and several items together."""

from datetime import timedelta
from typing import Any

import msgspec
import pydantic
import pytest

from asyncq.domain.cron.item import CronItem, parse_cron_items
from asyncq.domain.cron.times import TimeDigest
from asyncq.domain.errors import CrontabProblem, InvalidCrontab, TaskError
from asyncq.domain.job import JobKeyMode
from asyncq.domain.task import Registry, task


@task(queue="mail", max_attempts=3, priority=7, flags=["slow"])
async def send_email(to: str = "") -> None:
    """A task with defaults."""


@task
async def rollup(day: str) -> None:
    """A task that needs a field."""


@task
async def resize(sizes: list[int]) -> None:
    """A task whose payload is no object."""


def at_noon(minute: TimeDigest) -> bool:
    """A function as a pattern."""
    return minute.hour == 12 and minute.minute == 0


async def later(minute: TimeDigest) -> bool:
    """A coroutine function, which cannot decide whether an item is due."""
    return True


PRINTABLE = "expected 1 to 128 characters without control characters"
FILL = "fill must be a timedelta or seconds from 0 to 36525 days, got "
MODES = "'replace', 'preserve_run_at', 'unsafe_dedupe'"


def problems(**fields: Any) -> list[tuple[str, str]]:
    """The problems of an item with these fields: the field and the message of each."""
    with pytest.raises(InvalidCrontab) as caught:
        CronItem(**{"task": "send_email", "match": "* * * * *", **fields})
    return [(problem.field, problem.said) for problem in caught.value.problems]


def test_an_item_is_called_as_its_task() -> None:
    """One schedule for a task is the rule."""
    assert ("send_email", "send_email") == (
        CronItem(send_email, "* * * * *").identifier,
        CronItem("x", "* * * * *", identifier="send_email").identifier,
    )


def test_an_item_takes_all_options() -> None:
    """They are the options of a line in a crontab, and some that only code can express."""
    item = CronItem(
        send_email,
        "H 4 * * mon-fri",
        payload={"to": "a@b.c"},
        identifier="mornings",
        fill=timedelta(days=2),
        max_attempts=10,
        queue="bulk",
        priority=-5,
        flags=["gpu"],
        job_key="key",
        job_key_mode=JobKeyMode.PRESERVE_RUN_AT,
        tz="Europe/Berlin",
    )

    spec = item.template

    assert ("send_email", "bulk", 10, -5, ("gpu",)) == (
        spec.task,
        spec.queue,
        spec.max_attempts,
        spec.priority,
        spec.flags,
    )
    assert ("key", "preserve_run_at") == (spec.job_key, spec.job_key_mode)
    assert ("mornings", timedelta(days=2), "Europe/Berlin") == (item.identifier, item.fill_period, str(item.zone))


def test_an_item_has_the_options_of_its_task_by_default() -> None:
    """Options of a task hold for all its jobs. A queue would not serialise them otherwise."""
    spec = CronItem(send_email, "* * * * *", priority=0).template

    assert ("mail", 3, 0, ("slow",)) == (spec.queue, spec.max_attempts, spec.priority, spec.flags)


def test_a_fill_can_be_given_in_seconds() -> None:
    """A number means seconds, like all delays."""
    assert timedelta(minutes=90) == CronItem("x", "* * * * *", fill=5400).fill_period


def test_pattern_is_the_older_name_of_match() -> None:
    """graphile-worker's README still has it."""
    assert CronItem("x", match="0 4 * * *") == CronItem("x", pattern="0 4 * * *")


def test_a_payload_is_read_when_the_item_is_made() -> None:
    """Later changes of the caller's dict must not change the jobs."""
    payload = {"a": 1}
    item = CronItem("x", "* * * * *", payload=payload)
    payload["a"] = 2

    assert {"a": b"1"} == {name: bytes(value) for name, value in item.members.items()}


def test_a_payload_may_be_a_struct() -> None:
    """`add_job` accepts structs too."""
    kind = msgspec.defstruct("Email", [("to", str)])

    assert ["to"] == list(CronItem("x", "* * * * *", payload=kind("a@b.c")).members)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"match": None}, ("match", "match must be a cron expression or a plain function, got None")),
        ({"match": 5}, ("match", "match must be a cron expression or a plain function, got 5")),
        ({"match": "60 * * * *"}, ("match", "minute is 60, expected 0 to 59")),
        ({"match": "0 0 30 2 *"}, ("match", "'0 0 30 2 *' never fires: no month in it has such a day")),
        ({"pattern": "* * * * *"}, ("match", "match and its older name pattern are both given, expected one of them")),
        ({"dialect": "vixie"}, ("dialect", "dialect is 'vixie', expected 'crontab' or 'extended'")),
        ({"task": "a\n"}, ("task", "task: identifier 'a\\n' is empty or holds a control character")),
        (
            {"task": "x" * 129, "identifier": "x"},
            ("task", "task: identifier is 129 characters long, at most 128 are allowed"),
        ),
        ({"task": 5, "identifier": "x"}, ("task", "task must be a task or the name of one, got 5")),
        ({"identifier": "a\n"}, ("identifier", f"identifier is 'a\\n', {PRINTABLE}")),
        ({"identifier": "x" * 129}, ("identifier", f"identifier is {'x' * 129!r}, {PRINTABLE}")),
        ({"identifier": 5}, ("identifier", f"identifier is 5, {PRINTABLE}")),
        ({"fill": -1}, ("fill", f"{FILL}-1")),
        ({"fill": "2d"}, ("fill", f"{FILL}'2d'")),
        ({"fill": timedelta(days=36526)}, ("fill", f"{FILL}datetime.timedelta(days=36526)")),
        ({"max_attempts": 0}, ("max_attempts", "max_attempts is 0, expected 1 to 32767")),
        ({"queue": "default"}, ("queue", "queue 'default' is reserved for jobs without a queue; choose another name")),
        ({"priority": 32768}, ("priority", "priority is 32768, expected -32768 to 32767")),
        ({"flags": "gpu"}, ("flags", "flags must be a list of str, got 'gpu'")),
        ({"job_key": ""}, ("job_key", "job_key is empty, at least 1 character is needed")),
        (
            {"job_key_mode": "keep"},
            ("job_key_mode", f"job_key_mode 'keep' is unknown, expected one of {MODES}"),
        ),
        ({"tz": None}, ("tz", "tz: a zone is a name such as 'Europe/Berlin', got None")),
        ({"tz": 5}, ("tz", "tz: a zone is a name such as 'Europe/Berlin', got 5")),
        ({"tz": "Europe/Berln"}, ("tz", "tz: 'Europe/Berln' is not a time zone; did you mean 'Europe/Berlin'?")),
        ({"payload": [1]}, ("payload", "payload must be an object, got list")),
        ({"payload": {"a": float("nan")}}, ("payload", "payload holds NaN or Infinity at $.a, which JSON lacks")),
        (
            {"payload": {"a": object()}},
            ("payload", "payload cannot be written as JSON at $.a: Encoding objects of type object is unsupported"),
        ),
        ({"task": rollup}, ("payload", "payload of task 'rollup': Object missing required field `day`")),
        ({"task": resize}, ("payload", "payload of task 'resize': Expected `array`, got `object`")),
        (
            {"task": rollup, "payload": {"day": 1}},
            ("payload", "payload of task 'rollup': Expected `str`, got `int` - at `$.day`"),
        ),
    ],
    ids=lambda value: ascii(value)[:40].partition(" object at ")[0],
)
def test_each_fault_of_a_field_is_reported(fields: dict[str, Any], expected: tuple[str, str]) -> None:
    """They are reported when the item is made. At the first slot the job would fail, or not be added."""
    assert [expected] == problems(**fields)


def test_a_coroutine_function_cannot_be_asked() -> None:
    """Its answer would be a coroutine, which is true at every minute."""
    [(field, said)] = problems(match=later)

    assert "match" == field
    assert "plain function, got <function later" in said


def test_all_faults_of_an_item_are_reported_together() -> None:
    """They have the order of a line, and the name of the item."""
    with pytest.raises(InvalidCrontab) as caught:
        CronItem("send_email", "60 * * * 9", identifier="mornings", priority=99_999, max_attempts=0, tz="Mars")

    assert (
        "the crontab has 5 problems:\n"
        "  item 'mornings', column 1: minute is 60, expected 0 to 59\n"
        "  item 'mornings', column 10: day of the week is 9, expected 0 to 7\n"
        "  item 'mornings': max_attempts is 0, expected 1 to 32767\n"
        "  item 'mornings': priority is 99999, expected -32768 to 32767\n"
        "  item 'mornings': tz: 'Mars' is not a time zone; expected an IANA name such as 'Europe/Berlin'"
    ) == str(caught.value)


def test_a_single_problem_is_part_of_the_sentence() -> None:
    """It includes the place in the text, if there is one."""
    problem = CrontabProblem("hour is 24", "match", line=3, column=5)

    assert "crontab cannot be used: line 3, column 5: hour is 24" == str(InvalidCrontab([problem], "crontab"))


def test_items_stay_in_their_order() -> None:
    """Jobs that are due at the same minute are added in the order of the items."""
    items = [CronItem(name, "* * * * *") for name in ("b", "a", "c")]

    assert items == [*parse_cron_items(items)]


def test_an_item_that_only_names_its_task_gets_its_defaults() -> None:
    """Jobs that are added by name get them too. Items of unknown tasks stay unchanged."""
    known, unknown = parse_cron_items(
        [CronItem("send_email", "* * * * *"), CronItem("other", "* * * * *")], Registry([send_email, rollup])
    )

    assert ("mail", None) == (known.template.queue, unknown.template.queue)


def test_faults_of_several_items_are_reported_together() -> None:
    """Two items with one identifier would share slots."""
    wrong: Any = "* * * * * x"
    items = [CronItem("rollup", "* * * * *"), CronItem(send_email, at_noon), CronItem(send_email, "0 1 * * *"), wrong]

    with pytest.raises(InvalidCrontab) as caught:
        parse_cron_items(items, Registry([rollup]))

    assert (
        "the crontab has 3 problems:\n"
        "  item 'rollup': payload of task 'rollup': Object missing required field `day`\n"
        "  item 'send_email': two items, of the tasks 'send_email' and 'send_email', have this identifier; "
        "give one of them another\n"
        "  an item must be a CronItem, got '* * * * * x'"
    ) == str(caught.value)


def test_the_jobs_of_a_task_with_a_unique_policy_have_it() -> None:
    """The policy may drop a slot while the last job still waits."""
    made = task(singleton=True)(rollup.handler)

    assert CronItem(made, "* * * * *", payload={"day": "x"}).template.singleton


@pytest.mark.parametrize(
    ("options", "payload", "job_key", "said"),
    [
        ({"singleton": True}, {"day": "x"}, "k", "job_key goes without unique and singleton"),
        ({"unique": {"keys": ["args"], "args_keys": ["user"]}}, {"day": "x"}, None, "'user'"),
    ],
    ids=["job-key", "args-keys"],
)
def test_a_policy_that_its_jobs_cannot_have_is_refused(
    options: dict[str, Any], payload: dict[str, str], job_key: str | None, said: str
) -> None:
    """It is refused when the item is made, not when it is due."""
    made = task(**options)(rollup.handler)

    with pytest.raises(InvalidCrontab, match=said):
        CronItem(made, "* * * * *", payload=payload, job_key=job_key)


class StrictModel(pydantic.BaseModel, extra="forbid"):
    """Takes no unknown member."""

    day: str = ""


class StrictStruct(msgspec.Struct, forbid_unknown_fields=True):
    """Takes none either."""

    day: str = ""


@pytest.mark.parametrize("kind", [StrictModel, StrictStruct])
def test_a_type_that_forbids_the_member_of_the_slot_is_refused(kind: Any) -> None:
    """Each job would fail. The error says what to change, also where the item is made by the task."""

    async def strict(payload: Any) -> None: ...

    strict.__annotations__["payload"] = kind
    said = "its type forbids unknown members, but each job of an item has the member '_cron': give the type such"

    with pytest.raises(InvalidCrontab, match=said):
        CronItem(task(strict), "* * * * *", payload={"day": "2030-01-31"})
    with pytest.raises(TaskError, match=said):
        task(cron="* * * * *")(strict)
    with pytest.raises(InvalidCrontab, match="day"):
        CronItem(task(strict), "* * * * *", payload={"day": 1})


def test_a_strict_type_with_a_field_for_the_slot_is_accepted() -> None:
    """An alias gives the field another name in Python."""

    class Slotted(pydantic.BaseModel, extra="forbid"):
        slot: dict[str, Any] = pydantic.Field(alias="_cron")

    async def strict(payload: Any) -> None: ...

    strict.__annotations__["payload"] = Slotted

    assert {} == CronItem(task(strict), "* * * * *").members
