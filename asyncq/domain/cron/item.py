"""`CronItem`: a recurring job as it is written in code; it is checked when it is made, and all faults are reported."""

import dataclasses
import functools
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta, tzinfo
from typing import Any, Protocol, Self, cast

import msgspec
from msgspec.structs import force_setattr

from asyncq.domain.cron.expression import DIALECTS, Dialect, expand
from asyncq.domain.cron.overlap import OVERLAPS, Overlap, overlap_policy
from asyncq.domain.cron.times import Matcher, Times
from asyncq.domain.cron.zone import find_zone
from asyncq.domain.deduplication import extra
from asyncq.domain.errors import ConfigurationError, CrontabProblem, InvalidCrontab, InvalidJob, seconds
from asyncq.domain.fields import MARK
from asyncq.domain.job import MAX_NAME, JobKeyMode, JobSpec
from asyncq.domain.payload import encode
from asyncq.domain.signature import Signature

# The format of a slot in a payload.
EXAMPLE = {"ts": "2021-01-01T04:00:00.000Z", "backfilled": False}

# Fields of an item that its job has too; missing ones are the task's.
JOB_OPTIONS = ("queue", "max_attempts", "priority", "flags", "job_key", "job_key_mode")
_PRINTABLE = re.compile(rf"[^\x00-\x1f\x7f\ud800-\udfff]{{1,{MAX_NAME}}}")
_members = msgspec.json.Decoder(dict[str, msgspec.Raw])

# The field of a fault, its message, and its column if there is one.
_Fault = tuple[str, str, int | None]


class CronTask(Protocol):
    """The part of a task that an item needs; `Task` has it."""

    @property
    def name(self) -> str: ...
    @property
    def signature(self) -> Signature: ...
    def spec(self, payload: str) -> JobSpec: ...


class _Head(msgspec.Struct, frozen=True):
    """The fields that may be given by position."""

    task: str | CronTask
    match: str | Matcher | None = None


class CronItem(_Head, frozen=True, kw_only=True, dict=True):
    """A recurring job: the task, the times, the payload and the options.

    Attributes:
        task: The task, or its name.
        match: The times: a cron expression, or a function that is called for each minute with a `TimeDigest` of the
            item's zone. Every worker calls it once a minute: it must be quick, and return the same everywhere.
        payload: An object, to which `_cron: {ts, backfilled}` is added; `{}` by default.
        identifier: The name under which the database stores the item, at most 128 characters; the name of the task by
            default. Two items of one task need different ones. An item with a changed identifier is a new item.
        fill: How far back a starting worker looks for missed slots; a timedelta or seconds, at most 36,525 days; not at
            all by default. Make it a little longer than your longest downtime.
        max_attempts: The number of attempts in all, 1 to 32767; the task's by default.
        queue: The named queue that runs its jobs one after the other; the task's by default.
        priority: -32768 to 32767, lower first; the task's by default.
        flags: Names that a worker may forbid; the task's by default.
        job_key: A key for its jobs: while one waits, the next slot changes that one instead of adding another.
        job_key_mode: The effect of an add when a job has the key; `replace` by default.
        overlap: What happens to a slot while a job of the item waits, is to be retried or runs. `allow` adds another
            job (the default), `skip` drops the slot, `replace` replaces that job, and cancels it if it runs.
        tz: The IANA zone of `match`; `UTC` by default.
        dialect: The syntax of `match`: `extended` by default, or `crontab`, only the fields of graphile-worker.
        pattern: The older name of `match` in graphile-worker; it is None once the item is made.

    Raises:
        InvalidCrontab: A field breaks a rule, or the expression never fires; with all problems.
    """

    payload: Mapping[str, Any] | msgspec.Struct | None = None
    identifier: str = ""
    fill: timedelta | float = timedelta(0)
    max_attempts: int | None = None
    queue: str | None = None
    priority: int | None = None
    flags: Iterable[str] | None = None
    job_key: str | None = None
    job_key_mode: JobKeyMode | str | None = None
    overlap: Overlap = "allow"
    tz: str = "UTC"
    dialect: Dialect = "extended"
    pattern: str | None = None

    def __post_init__(self) -> None:
        if self.pattern is not None and self.match is None:
            force_setattr(self, "match", self.pattern)
            force_setattr(self, "pattern", None)
        if self.identifier == "":
            force_setattr(self, "identifier", self.task_name)
        if isinstance(self.flags, Iterable) and not isinstance(self.flags, str):
            force_setattr(self, "flags", tuple(self.flags))
        if faults := [*self._faults()] or [*self._faults_of_whole()]:
            name = str(self.identifier)
            raise InvalidCrontab(CrontabProblem(said, field, name, None, column) for field, said, column in faults)

    def __reduce__(self) -> tuple[Any, ...]:
        return _copied, (type(self), msgspec.structs.asdict(self), self.line)

    def __copy__(self) -> Self:
        return _copied(type(self), msgspec.structs.asdict(self), self.line)

    @property
    def task_name(self) -> str:
        """The name of its task."""
        return self.task if isinstance(self.task, str) else getattr(self.task, "name", "")

    @functools.cached_property
    def line(self) -> int | None:
        """The line of its text; None if it was made in code."""
        return None

    @functools.cached_property
    def when(self) -> Times | Matcher:
        """The minutes of the expression, or the function."""
        if isinstance(self.match, str):
            return expand(self.match, self.dialect, self.identifier)
        return cast(Matcher, self.match)

    @functools.cached_property
    def zone(self) -> tzinfo:
        """The zone of `tz`."""
        return find_zone(self.tz)

    @functools.cached_property
    def fill_period(self) -> timedelta:
        """How far back missed slots are filled."""
        return timedelta(seconds=seconds(self.fill))

    @functools.cached_property
    def members(self) -> dict[str, msgspec.Raw]:
        """The members of the payload, each as JSON."""
        return _members.decode("{}" if self.payload is None else encode(self.payload))

    @functools.cached_property
    def template(self) -> JobSpec:
        """Its job, without the payload and the time."""
        spec = JobSpec(task=self.task) if isinstance(self.task, str) else self.task.spec("{}")
        options: Any = {name: getattr(self, name) for name in JOB_OPTIONS}
        return spec.with_options(**options)

    def _faults(self) -> Iterator[_Fault]:
        """Yield all faults, in the order of a line."""
        yield from self._faults_of_match()
        if isinstance(self.task, str) or isinstance(getattr(self.task, "signature", None), Signature):
            for field, said, _ in _faults_of_job("task", lambda: JobSpec(task=self.task_name).with_options()):
                yield field, f"task: {said}", None
        else:
            yield "task", f"task must be a task or the name of one, got {self.task!r}", None
        # A missing one is the task's, and is checked with the task.
        identifier: Any = self.identifier
        if identifier != self.task_name and not (isinstance(identifier, str) and _PRINTABLE.fullmatch(identifier)):
            said = f"identifier is {self.identifier!r}, expected 1 to {MAX_NAME} characters without control characters"
            yield "identifier", said, None
        try:
            _ = self.fill_period
        except ConfigurationError:
            yield "fill", f"fill must be a timedelta or seconds from 0 to 36525 days, got {self.fill!r}", None
        for name in JOB_OPTIONS:
            options: Any = {name: getattr(self, name)}
            yield from _faults_of_job(name, functools.partial(JobSpec(task="-").with_options, **options))
        if self.overlap not in OVERLAPS:
            yield "overlap", f"overlap is {self.overlap!r}, expected {', '.join(OVERLAPS)}", None
        try:
            _ = self.zone
        except ValueError as error:
            yield "tz", f"tz: {error}", None
        yield from self._faults_of_payload()

    def _faults_of_whole(self) -> Iterator[_Fault]:
        """Yield faults of the job that its parts do not have."""

        def ask() -> None:
            payload = msgspec.json.encode({**self.members, MARK: EXAMPLE}).decode()
            extra(msgspec.structs.replace(self.template, payload=payload))

        yield from _faults_of_job("task", ask)
        if self.overlap != "allow" and (other := self._other_answer()):
            said = f"overlap {self.overlap!r} goes without {other}: both say what becomes of a job beside another one"
            yield "overlap", said, None

    def _other_answer(self) -> str | None:
        """The other rule about a job of the item beside another one, if it has one."""
        try:
            spec = self.template
        except InvalidJob:
            return None  # It is reported already.
        if spec.job_key is not None:
            return "job_key"
        return f"the unique policy of task {spec.task!r}" if spec.unique is not None or spec.singleton else None

    def _faults_of_match(self) -> Iterator[_Fault]:
        if self.pattern is not None:
            yield "match", "match and its older name pattern are both given, expected one of them", None
        if self.dialect not in DIALECTS:
            yield "dialect", f"dialect is {self.dialect!r}, expected {' or '.join(map(repr, DIALECTS))}", None
        if isinstance(self.match, str):
            try:
                _ = self.when
            except InvalidCrontab as bad:
                for fault in bad.problems:
                    yield "match", fault.said, fault.column
        elif not callable(self.match) or inspect.iscoroutinefunction(self.match):
            yield "match", f"match must be a cron expression or a plain function, got {self.match!r}", None

    def _faults_of_payload(self) -> Iterator[_Fault]:
        try:
            marked = {**self.members, MARK: EXAMPLE}
        except msgspec.ValidationError:
            yield "payload", f"payload must be an object, got {type(self.payload).__name__}", None
            return
        except InvalidJob as error:
            yield "payload", str(error), None
            return
        signature = getattr(self.task, "signature", None)
        if not isinstance(signature, Signature):
            return
        for fault in _faults_of_job("payload", lambda: signature.encode_payload(marked)):
            if any(_faults_of_job("payload", lambda: signature.encode_payload(self.members))):
                yield fault
            else:
                said = f"its type forbids unknown members, but each job of an item has the member {MARK!r}"
                yield "payload", f"payload: {said}: give the type such a field, or allow unknown members", None


def _faults_of_job(field: str, make: Callable[[], object]) -> Iterator[_Fault]:
    try:
        make()
    except InvalidJob as error:
        yield field, str(error), None


def extra_of(item: CronItem, spec: JobSpec) -> str | None:
    """The record of the options of a job of an item, as JSON; None if all have their defaults."""
    return extra(spec, overlap=overlap_policy(item.identifier, item.overlap))


def checked(item: CronItem) -> CronItem:
    """Raise InvalidCrontab for an item whose payload has a field that its task does not have.

    Do not use it for stored items: another release, which knows the field, may have stored them.
    """
    if not isinstance(item.task, str):
        signature = item.task.signature
        for field, said, _ in _faults_of_job("payload", lambda: signature.check_fields(encode(item.members))):
            raise InvalidCrontab([CrontabProblem(said, field, item.identifier)])
    return item


def parse_cron_items(items: Iterable[CronItem], tasks: Mapping[str, CronTask] | None = None) -> tuple[CronItem, ...]:
    """Check items against each other, and give items that name a known task its defaults.

    Args:
        items: The items, such as those of `parse_crontab`.
        tasks: Tasks by name; an item of an unknown task stays as it is.

    Returns:
        The items, in their order.

    Raises:
        InvalidCrontab: Two have the same identifier, an element is not a `CronItem`, or a payload does not fit its
            task; with all problems.
    """
    problems: list[CrontabProblem] = []
    found: dict[str, CronItem] = {}
    # Without a type checker a caller may pass anything.
    for item in cast(Iterable[Any], items):
        if not isinstance(item, CronItem):
            problems.append(CrontabProblem(f"an item must be a CronItem, got {item!r}"))
        elif item.identifier in found:
            both = f"{found[item.identifier].task_name!r} and {item.task_name!r}"
            said = f"two items, of the tasks {both}, have this identifier; give one of them another"
            problems.append(CrontabProblem(said, "identifier", item.identifier, item.line))
        else:
            known = tasks.get(item.task) if tasks and isinstance(item.task, str) else None
            found[item.identifier] = item
            try:
                found[item.identifier] = checked(item if known is None else msgspec.structs.replace(item, task=known))
            except InvalidCrontab as invalid:
                problems.extend(dataclasses.replace(problem, line=item.line) for problem in invalid.problems)
    if problems:
        raise InvalidCrontab(problems)
    return tuple(found.values())


def _copied(kind: Any, fields: dict[str, Any], line: int | None) -> Any:
    """Make an item from its fields; the line of its text is not one of them."""
    item = kind(**fields)
    if line is not None:
        vars(item)["line"] = line
    return item
