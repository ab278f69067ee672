"""A misspelt field of a payload is refused when a job is added, and the nearest one is named."""

import dataclasses
import itertools
from typing import Annotated, Any, NamedTuple, NewType, TypedDict

import msgspec
import pytest

from asyncq.domain.adding import NOTHING, make_spec, make_specs
from asyncq.domain.cron.crontab import gather
from asyncq.domain.cron.item import CronItem
from asyncq.domain.cron.stored import item_of
from asyncq.domain.errors import InvalidCrontab, InvalidJob, TaskError
from asyncq.domain.job import JobSpec
from asyncq.domain.payload import DEFAULT_MAX_PAYLOAD
from asyncq.domain.signature import Context
from asyncq.domain.task import Registry, task
from tests.support.ids import written


class Email(msgspec.Struct):
    to: str
    subject: str = ""


class Renamed(msgspec.Struct, rename="camel", tag=True):
    first_name: str = ""


class Other(msgspec.Struct, tag=True):
    other: str = ""


@dataclasses.dataclass
class Data:
    name: str = ""


class Typed(TypedDict, total=False):
    name: str


class Named(NamedTuple):
    name: str = ""


@task
async def rollup(day: str = "today", dry_run: bool = False, ctx: Context | None = None) -> None:
    """Fields."""


@task
async def send_email(email: Email) -> None:
    """A struct."""


@task
async def import_row(row: dict[str, Any]) -> None:
    """Any object."""


@task
async def tidy() -> None:
    """Nothing."""


@task
async def clean_up(ctx: Context) -> None:
    """The context, which may read the payload."""


TASKS = Registry([rollup, send_email, import_row, tidy, clean_up])


def add(what: Any, payload: Any = NOTHING, *, strict: bool = True, registry: Registry | None = TASKS) -> JobSpec:
    """The result of an add by these arguments, alone and among others."""
    options: dict[str, Any] = {"registry": registry, "strict": strict, "max_payload": DEFAULT_MAX_PAYLOAD}
    spec = make_spec(what, payload, {}, **options)
    if payload is NOTHING:
        assert [spec] == make_specs([what], **options)
    return spec


def refusal(*args: Any, **options: Any) -> str:
    """The error of an add."""
    with pytest.raises(InvalidJob) as caught:
        add(*args, **options)
    if len(args) == 1:
        with pytest.raises(InvalidJob, match="there is no field"):
            make_specs(args, registry=TASKS, strict=True, max_payload=DEFAULT_MAX_PAYLOAD)
    assert ("GWBPL", "payload") == (caught.value.code, caught.value.field)
    return str(caught.value)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("rollup", {"dryrun": True}), "'rollup': there is no field 'dryrun'; did you mean 'dry_run'?"),
        (("rollup", {"day": "x", "dryrun": 1}), "'rollup': there is no field 'dryrun'; did you mean 'dry_run'?"),
        (("rollup", {"zzz": True}), "'rollup': there is no field 'zzz'; there are day, dry_run"),
        (("rollup", {"ctx": True}), "'rollup': there is no field 'ctx'; there are day, dry_run"),
        (("rollup", msgspec.Raw(b' {"dryrun": true}')), "no field 'dryrun'; did you mean 'dry_run'?"),
        (("rollup", Data("x")), "'rollup': there is no field 'name'; there are day, dry_run"),
        (
            ("send_email", {"to": "x", "subjekt": "y"}),
            "'send_email': there is no field 'subjekt'; did you mean 'subject'?",
        ),
        (("send_email", {"too": "x"}), "'send_email': there is no field 'too'; did you mean 'to'?"),
        ((send_email, {"to": "x", "subjekt": "y"}), "no field 'subjekt'; did you mean 'subject'?"),
        (("tidy", {"x": 1}), "'tidy': there is no field 'x'; it takes none"),
        ((JobSpec(task="rollup", payload='{"dryrun": true}'),), "no field 'dryrun'; did you mean 'dry_run'?"),
        ((JobSpec(task="send_email", payload='{"to": "x", "subjekt": "y"}'),), "no field 'subjekt'; did you mean"),
        ((JobSpec(task="tidy", payload='{"x": 1}'),), "no field 'x'; it takes none"),
    ],
    ids=itertools.count(),
)
def test_a_field_that_no_parameter_takes_is_refused(args: tuple[Any, ...], said: str) -> None:
    """The job would run with the default in its place."""
    assert said in refusal(*args)


def test_a_handler_that_adds_a_job_with_an_unknown_field_gets_the_error_too() -> None:
    """The worker knows the signature, even if it takes any name."""
    assert "did you mean 'dry_run'?" in refusal("rollup", {"dryrun": True}, strict=False)


@pytest.mark.parametrize(
    ("args", "payload"),
    [
        (("rollup",), "{}"),
        (("rollup", {"dry_run": True}), '{"dry_run":true}'),
        (("rollup", {"dry_run": True, "_cron": {"ts": "x"}}), '{"dry_run":true,"_cron":{"ts":"x"}}'),
        (("import_row", {"any": 1, "thing": 2}), '{"any":1,"thing":2}'),
        (("clean_up", {"any": 1}), '{"any":1}'),
        ((JobSpec(task="rollup", payload=' {"day": "x"}'),), ' {"day": "x"}'),
        ((JobSpec(task="rollup", payload="[1]"),), "[1]"),
        ((rollup.job(dry_run=True),), '{"dry_run":true}'),
        ((send_email, Email("x")), '{"to":"x","subject":""}'),
    ],
    ids=itertools.count(),
)
def test_a_known_field_passes(args: tuple[Any, ...], payload: str) -> None:
    """A value that is no object is checked with the types."""
    assert payload == add(*args).payload


def test_nothing_is_known_of_a_task_that_the_client_was_not_given() -> None:
    """The client does not know its signature."""
    assert '{"dryrun":true}' == add("rollup", {"dryrun": True}, registry=None).payload


@pytest.mark.parametrize(
    ("kind", "given", "unknown"),
    [
        (Renamed, {"type": "Renamed", "firstName": "x"}, "first_name"),
        (Renamed | Other, {"type": "Other", "other": "x"}, "another"),
        (Email | None, {"to": "x"}, "too"),
        (Annotated[Email, msgspec.Meta(description="x")], {"to": "x"}, "too"),
        (NewType("Mail", Email), {"to": "x"}, "too"),
        (Data, {"name": "x"}, "names"),
        (Typed, {"name": "x"}, "names"),
    ],
    ids=written,
)
def test_the_fields_of_every_kind_of_object_are_known(kind: Any, given: dict[str, Any], unknown: str) -> None:
    """Fields have their JSON names: renamed ones, and the tag of a struct."""

    async def handler(x: Any) -> None: ...

    handler.__annotations__["x"] = kind
    registry = Registry([task(name="t")(handler)])

    assert given == msgspec.json.decode(add("t", given, registry=registry).payload)
    with pytest.raises(InvalidJob, match=f"there is no field '{unknown}'"):
        add("t", {**given, unknown: "x"}, registry=registry)


@pytest.mark.parametrize("kind", [dict[str, Any] | None, Any, dict[str, int], msgspec.Raw, object], ids=written)
def test_a_type_that_takes_any_object_has_any_field(kind: Any) -> None:
    """No field can be misspelt."""

    async def handler(x: Any) -> None: ...

    handler.__annotations__["x"] = kind

    assert '{"to":1}' == add("t", {"to": 1}, registry=Registry([task(name="t")(handler)])).payload


def test_a_payload_that_is_an_array_has_no_fields() -> None:
    """Its items are checked by their types."""

    @task
    async def plot(point: Named) -> None: ...

    assert '["x"]' == add("plot", ["x"], registry=Registry([plot])).payload


# By the task itself


@pytest.mark.parametrize(
    ("kwargs", "said"),
    [
        ({"days": "x"}, "there is no parameter 'days'; did you mean 'day'?"),
        ({"day": "x", "dryrun": True}, "there is no parameter 'dryrun'; did you mean 'dry_run'?"),
        ({"zzz": 1}, "there is no parameter 'zzz'; there are day, dry_run"),
        ({"ctx": 1}, "there is no parameter 'ctx'; there are day, dry_run"),
    ],
    ids=written,
)
def test_a_call_with_a_misspelt_parameter_names_it(kwargs: dict[str, Any], said: str) -> None:
    """The error does not name the parameter that is missing as a result."""

    @task
    async def rollup(day: str, *, dry_run: bool = False, ctx: Context | None = None) -> None: ...

    with pytest.raises(InvalidJob) as caught:
        rollup.job(**kwargs)

    assert f"payload of task 'rollup': {said}" == str(caught.value)


def test_a_whole_payload_by_a_misspelt_name_names_it() -> None:
    """It is a parameter, too."""
    with pytest.raises(InvalidJob, match="there is no parameter 'mail'; did you mean 'email'"):
        send_email.job(mail=Email("x"))  # type: ignore[call-arg]


# Recurring jobs


def test_an_own_recurring_job_of_a_task_is_checked_at_import() -> None:
    """Its payload would be misread in each slot."""
    with pytest.raises(TaskError, match="there is no field 'dryrun'; did you mean 'dry_run'"):

        @task(cron="0 4 * * * {dryrun: true}")
        async def rollup(dry_run: bool = False) -> None: ...


@pytest.mark.parametrize(
    "crontab",
    [
        "0 4 * * * rollup {dryrun: true}",
        CronItem("rollup", "0 4 * * *", payload={"dryrun": True}),
        CronItem(rollup, "0 4 * * *", payload={"dryrun": True}),
        "0 4 * * * tidy {x: 1}",
    ],
    ids=["text", "item by name", "item", "no parameters"],
)
def test_a_crontab_is_checked_against_the_tasks_of_its_worker(crontab: Any) -> None:
    """It is checked when the worker is made."""
    with pytest.raises(InvalidCrontab, match=r"there is no field '(dryrun|x)'") as caught:
        gather(crontab, TASKS)

    assert "payload" == caught.value.problems[0].field


def test_a_recurring_job_without_its_field_names_the_misspelt_one() -> None:
    """The error does not only name the missing one."""

    @task
    async def rollup(day: str) -> None: ...

    with pytest.raises(InvalidCrontab, match="there is no field 'days'; did you mean 'day'"):
        CronItem(rollup, "0 4 * * *", payload={"days": "x"})


def test_a_known_field_of_a_crontab_passes() -> None:
    """The field of the slot too, which a caller may have copied from a job."""
    items = gather("0 4 * * * rollup {dry_run: true, _cron: {}}\n0 4 * * * clean_up {x: 1}", TASKS)

    assert ["rollup", "clean_up"] == [item.task_name for item in items]


def test_a_stored_item_with_an_unknown_field_is_scheduled() -> None:
    """Another release stored it, or will read the field, so runs are lenient."""
    item = item_of("i", '{"task": "rollup", "expression": "0 4 * * *", "payload": {"dryrun": true}}', TASKS)

    assert {"dryrun"} == {*item.members}


def test_a_worker_ignores_an_unknown_field() -> None:
    """The job may come from a release that has the field."""
    args, _ = rollup.signature.decode('{"dryrun": true, "day": "x"}', Context())

    assert ("x", False) == args[:2]
