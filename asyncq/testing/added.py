"""Assertions about waiting jobs: was this job added?"""

import dataclasses
import inspect
import typing
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import date, time, timedelta
from enum import Enum
from typing import Any
from uuid import UUID

import msgspec

from asyncq.client import Client
from asyncq.domain.annotations import parameters_of
from asyncq.domain.constraints import has_schema
from asyncq.domain.errors import ConfigurationError, InvalidJob
from asyncq.domain.job import OPTIONS, Job
from asyncq.domain.models.adapter import Adapter, library
from asyncq.domain.payload import encode
from asyncq.domain.signature import is_context
from asyncq.domain.task import Task
from asyncq.store.admin import get_job
from asyncq.store.callers import readable
from asyncq.store.database import CallersConnection, Connection, Database
from asyncq.store.failures import calling
from asyncq.store.statements import render

ANYTHING: Any = object()
COMPARED_OPTIONS = OPTIONS & {*Job.__struct_fields__, "job_key"}
MOST_SHOWN = 10
# In addition to plain JSON: values that are equal to nothing but themselves as JSON.
_TELLING = (date, time, timedelta, UUID, Enum)

Place = Client | CallersConnection


async def assert_added(
    where: Place, task: Task[...] | str, payload: Any = ANYTHING, /, *, schema: str | None = None, **expected: Any
) -> list[Job]:
    """Assert that a waiting job matches; fields that are not named may have any value.

    Args:
        where: A client. Or a connection, as `Client.add_job` takes it, together with `schema`: jobs of its open
            transaction are included.
        task: A task, or the name of one. The payloads of a task are decoded: fields have their Python names and types,
            and defaults are filled in. With a name, payloads are plain JSON.
        payload: The expected payload; of a dict, only its own fields are compared. Any payload by default.
        schema: The name of the schema, required with a connection.
        **expected: Options of the job (queue, run_at, max_attempts, priority, flags, meta, job_key), and fields of its
            payload. A field with the name of an option goes into `payload`. `queue=None` means: no queue.

    Returns:
        The matching jobs, in the order of running: `[job] = await assert_added(...)` expects exactly one.

    Raises:
        AssertionError: No job matches; the message shows the waiting jobs.
        TypeError: The task's payload has no such field, or never such a value in it; or this is not a task or name.
        StoreError: The database cannot be used.

    Running, discarded and ended jobs are not compared. If cancelled, nothing was changed: it only reads.

        async def test_an_order_is_billed(client: Client, db: asyncpg.Connection, schema: str) -> None:
            async with db.transaction():
                await place_order(db, client)
                await assert_added(db, send_bill, schema=schema, amount=30, priority=5)
    """
    __tracebackhide__ = True
    wanted = _Wanted(task, payload, expected)
    waiting, others = await _jobs(where, schema, wanted.name)
    if found := [job for job in waiting if not wanted.differences(job)]:
        return found
    lines = [f"{_line(job)}: differs in {', '.join(wanted.differences(job))}" for job in waiting[:MOST_SHOWN]]
    said = [f"no waiting job of task {wanted.name!r} has {wanted}", *(lines or ["no job of it waits"]), *_more(waiting)]
    raise AssertionError("\n".join([*said, *others]))


async def assert_not_added(
    where: Place, task: Task[...] | str, payload: Any = ANYTHING, /, *, schema: str | None = None, **expected: Any
) -> None:
    """Assert that no waiting job matches.

    The arguments are those of `assert_added`; without `expected`, no job of the task may wait.

    Raises:
        AssertionError: A job matches; the message shows it.
        TypeError: The task's payload has no such field, or never such a value in it.
        StoreError: The database cannot be used.

    If cancelled, nothing was changed: it only reads.
    """
    __tracebackhide__ = True
    wanted = _Wanted(task, payload, expected)
    waiting, _ = await _jobs(where, schema, wanted.name)
    if found := [job for job in waiting if not wanted.differences(job)]:
        lines = [_line(job) for job in found[:MOST_SHOWN]]
        raise AssertionError(
            "\n".join([f"a job of task {wanted.name!r} waits that has {wanted}:", *lines, *_more(found)])
        )


class _Wanted:
    """The expected values of an assertion, to compare with jobs."""

    def __init__(self, task: Task[...] | str, payload: Any, expected: Mapping[str, Any]) -> None:
        if not isinstance(task, Task | str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"expected a task, or the name of one, got {task!r}; is the function decorated with @task?")
        self._task = task if isinstance(task, Task) else None
        self.name: str = task.name if isinstance(task, Task) else task
        self._payload = payload
        self._options = {name: value for name, value in expected.items() if name in COMPARED_OPTIONS}
        self._fields = {name: value for name, value in expected.items() if name not in COMPARED_OPTIONS}
        if isinstance(self._options.get("flags", ANYTHING), list | tuple | set | frozenset | None):
            self._options["flags"] = tuple(sorted(set(self._options["flags"] or ())))
        if isinstance(payload, dict):
            self._fields |= payload
            self._payload = ANYTHING
        if self._task is not None:
            self._check_fields(self._task)

    def _check_fields(self, task: Task[...]) -> None:
        """Refuse fields and values that no payload of the task can have: their absence would prove nothing."""
        known = _fields_of(task)
        if known is None:
            return
        if unknown := sorted(self._fields.keys() - known.keys()):
            raise TypeError(
                f"the payload of task {self.name!r} has no field {unknown[0]!r}; there are "
                f"{', '.join(sorted(known)) or 'none'}, and the options {', '.join(sorted(COMPARED_OPTIONS))}"
            )
        for name, value in self._fields.items():
            if not _can_be(value, known[name]):
                kind = inspect.formatannotation(known[name].annotation)
                raise TypeError(f"field {name!r} of the payload of task {self.name!r} is {kind}, and never {value!r}")

    def __str__(self) -> str:
        parts = [] if self._payload is ANYTHING else [f"payload {self._payload!r}"]
        parts += [f"{name}={value!r}" for name, value in {**self._fields, **self._options}.items()]
        return ", ".join(parts) or "anything"

    def differences(self, job: Job) -> list[str]:
        """The fields in which a job differs, each with the job's value."""
        payload = self._decoded(job)
        there = _members(payload)
        found = [
            (name, there.get(name, "nothing"))
            for name, value in self._fields.items()
            if name not in there or not _is(value, there[name])
        ]
        if self._payload is not ANYTHING and not _is(self._payload, payload):
            found.append(("payload", payload))
        actual = {name: getattr(job, "key" if name == "job_key" else name) for name in self._options}
        found += [(name, actual[name]) for name, value in self._options.items() if not _is(value, actual[name])]
        return [f"{name} ({value!r})" for name, value in found]

    def _decoded(self, job: Job) -> Any:
        """The payload as the handler receives it: the single value, or its parameters by name."""
        if self._task is None:
            return msgspec.json.decode(job.payload)
        try:
            args, kwargs = self._task.signature.decode(job.payload, ANYTHING)
        except msgspec.MsgspecError:
            return msgspec.json.decode(job.payload)
        arguments = inspect.Signature(parameters_of(self._task.handler)).bind(*args, **kwargs).arguments
        values = {name: value for name, value in arguments.items() if value is not ANYTHING}
        return next(iter(values.values())) if self._task.signature.whole_payload else values


class _Field(typing.NamedTuple):
    """A field of a payload; unknown parts are `inspect.Parameter.empty`."""

    annotation: Any
    default: Any


def _fields_of(task: Task[...]) -> dict[str, _Field] | None:
    """The fields that payloads of a task have; None if they may have any."""
    fields = {
        parameter.name: _Field(parameter.annotation, parameter.default)
        for parameter in parameters_of(task.handler)
        if not is_context(parameter) and parameter.name not in task.signature.uses
    }
    return _members_of(next(iter(fields.values())).annotation) if task.signature.whole_payload else fields


def _members_of(kind: Any) -> dict[str, _Field] | None:
    if (names := _declared(kind)) is None:
        return None
    plain: Any = typing.get_origin(kind) or kind
    kinds: dict[str, Any] = {}
    defaults: dict[str, Any] = {}
    with suppress(NameError, TypeError, ValueError):
        kinds = typing.get_type_hints(plain)
        defaults = {name: parameter.default for name, parameter in inspect.signature(plain).parameters.items()}
    empty = inspect.Parameter.empty
    return {name: _Field(kinds.get(name, empty), defaults.get(name, empty)) for name in names}


def _can_be(value: Any, field: _Field) -> bool:
    """Whether a field may have a value; True if that cannot be decided, as for an object with its own `__eq__`."""
    if field.annotation is inspect.Parameter.empty:
        return True
    try:
        if value == field.default or not (isinstance(value, _TELLING) or _plain(value) == value):
            return True
        return any(_is_read(each, field.annotation) for each in _equals(value))
    except Exception:  # noqa: BLE001 - from a user's `__eq__` or `__post_init__`
        return True


def _equals(value: Any) -> Iterator[Any]:
    """Yield a value, and the numbers that are equal to it."""
    yield value
    if isinstance(value, float) and value.is_integer():
        yield int(value)
    if isinstance(value, int | float) and value in (0, 1):
        yield from (int(value), bool(value))


def _is_read(value: Any, kind: Any) -> bool:
    text = encode(value)
    try:
        if library() is not None and has_schema(kind):
            Adapter(kind).decode(text)
        else:
            msgspec.json.decode(text, type=kind)
    except msgspec.ValidationError:
        return False
    return True


def _declared(kind: Any) -> set[str] | None:
    plain: Any = typing.get_origin(kind) or kind
    if hasattr(plain, "__pydantic_fields__"):
        return {*plain.__pydantic_fields__}
    if dataclasses.is_dataclass(plain):
        return {field.name for field in dataclasses.fields(plain)}
    if typing.is_typeddict(plain):
        return set(plain.__annotations__)
    if hasattr(plain, "__attrs_attrs__"):
        return {field.name for field in plain.__attrs_attrs__}
    # Of a struct, or of a NamedTuple.
    names: tuple[str, ...] | None = getattr(plain, "__struct_fields__", getattr(plain, "_fields", None))
    return None if names is None else set(names)


def _members(value: Any) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return typing.cast("Mapping[str, Any]", value)
    names = _declared(type(value)) or ()
    return {name: getattr(value, name) for name in names}


def _is(expected: Any, actual: Any) -> bool:
    """Whether two values are equal as Python or as JSON: a dict equals a struct with its fields."""
    if expected == actual:
        return True
    try:
        return bool(_plain(expected) == _plain(actual))
    except (InvalidJob, TypeError, ValueError):
        return False


def _plain(value: Any) -> Any:
    return msgspec.json.decode(encode(value))


@asynccontextmanager
async def _connection(where: Place, schema: str | None) -> AsyncGenerator[tuple[Database, Connection]]:
    if isinstance(where, Client):
        database = where._database  # pyright: ignore[reportPrivateUsage]
        async with where._connection() as own:  # pyright: ignore[reportPrivateUsage]
            yield database, own
        return
    connection = readable(where)
    if schema is None:
        raise ConfigurationError("with a connection, name the schema too: schema=...")
    # It only provides the schema's name: nothing connects with it.
    yield Database("postgresql:", schema), connection


async def _jobs(where: Place, schema: str | None, task: str) -> tuple[list[Job], list[str]]:
    """The waiting jobs of a task in the order of running, and a line about all other jobs."""
    async with _connection(where, schema) as (database, connection):
        with calling(database.schema):
            rows = await connection.fetch(render(_JOBS, database.schema), task)
        waiting = [await get_job(database, connection, row["id"]) for row in rows if row["id"] is not None]
    in_order = sorted((job for job in waiting if job is not None), key=lambda job: (job.priority, job.run_at, job.id))
    others = [f"{row['task']} ({row['number']} {row['what']})" for row in rows if row["id"] is None]
    return in_order, [f"not counted: {', '.join(others)}"] if others else []


def _line(job: Job) -> str:
    return (
        f"  job {job.id}: {job.payload}, queue {job.queue!r}, priority {job.priority}, run_at {job.run_at}, "
        f"attempts {job.attempts} of {job.max_attempts}, flags {list(job.flags)}"
    )


def _more(jobs: Sequence[Job]) -> list[str]:
    return [f"  and {len(jobs) - MOST_SHOWN} more"] if len(jobs) > MOST_SHOWN else []


_JOBS = """
select job.id, null as task, null as what, 1 as number
from asyncq._jobs as job
join asyncq._tasks as task on task.id = job.task_id
where task.identifier = $1 and job.locked_by is null and job.attempts < job.max_attempts
union all
select null, task.identifier, state.what, count(*)
from asyncq._all_jobs() as job
join asyncq._tasks as task on task.id = job.task_id
cross join lateral (select case
  when job.locked_by is not null then 'running'
  when job.attempts >= job.max_attempts then 'discarded'
  when task.identifier <> $1 then 'waiting' end) as state(what)
where state.what is not null
group by task.identifier, state.what
"""
