"""What a job is: the request (`JobSpec`), the stored row (`Job`), the answer to an add (`Added`)."""

import functools
import inspect
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self, TypedDict, Unpack

import msgspec

from asyncq.domain import hints
from asyncq.domain.errors import InvalidJob
from asyncq.domain.meta import check_meta
from asyncq.domain.moment import datetime_of
from asyncq.domain.payload import encode
from asyncq.domain.states import JobState
from asyncq.domain.unique import UNIQUE_CODE, OnConflict, UniquePolicy

MAX_NAME = 128
MAX_KEY = 512
MAX_REQUEST = 200
INT2 = 32767

Outcome = Literal["added", "updated", "deduplicated", "rejected"]


class JobKeyMode(StrEnum):
    """What an add does when a job with its key exists."""

    REPLACE = "replace"
    PRESERVE_RUN_AT = "preserve_run_at"
    UNSAFE_DEDUPE = "unsafe_dedupe"


class JobOptions(TypedDict, total=False):
    """What can be given with every add; None means the task's default.

    Attributes:
        queue: The named queue that runs it in series, at most 128 characters.
        run_at: When it may start, with a time zone.
        max_attempts: Total attempts, 1 to 32767.
        priority: -32768 to 32767, lower first.
        flags: Names that a worker may forbid, at most 128 characters each.
        job_key: A name, 1 to 512 characters, that at most one waiting or running job has; none by default.
        job_key_mode: What an add does when a job has the key; `replace` by default.
        meta: An object that goes with the job.
        unique: Which jobs may not exist beside this one: a `UniquePolicy`, or an object of its members. It takes the
            place of the task's policy.
        singleton: Whether at most one job of the task waits or runs; a further add is dropped.
        subject: What a singleton is the only one for, 1 to 512 characters; by default the whole task.
        force: Whether to add the job whatever its policy says; it bars later ones.
        rerun: Whether to remember the payload when the job that bars this one runs: it begins anew when its run ends.
        idempotency_key: A name of this very request, 1 to 200 characters: made again within the client's
            `idempotency_window` (of an add by a context a day), it comes to the same job. None by default.
    """

    queue: str | None
    run_at: datetime | None
    max_attempts: int | None
    priority: int | None
    flags: Iterable[str] | None
    job_key: str | None
    job_key_mode: JobKeyMode | str | None
    meta: dict[str, Any] | None
    unique: UniquePolicy | Mapping[str, Any] | None
    singleton: bool | None
    subject: str | None
    force: bool | None
    rerun: bool | None
    idempotency_key: str | None


# What a log line or a terminal would not survive.
_CONTROL = re.compile("[\x00-\x1f\x7f]")

OPTIONS = frozenset(JobOptions.__annotations__)

_TWO_ANSWERS = "they are two answers to what becomes of an add beside another job"

REPLACING = (OnConflict.REPLACE, OnConflict.REPLACE_EXCEPT_SCHEDULE)


class JobSpec(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A job to be added: everything but its id. None means the default.

    None of its fields can lead back to it, so that the garbage collector need not look at it, of which there are many.

    Attributes:
        task: The task's identifier, at most 128 characters.
        payload: The payload as JSON text; `{}` by default.
        queue: The named queue that runs it in series; none by default.
        run_at: When it may start, with a time zone; now by default.
        max_attempts: Total attempts, 1 to 32767; 25 by default.
        priority: -32768 to 32767, lower first; 0 by default.
        flags: Names that a worker may forbid.
        job_key: A name, 1 to 512 characters, that at most one waiting or running job has; none by default.
        job_key_mode: What an add does when a job has the key; `replace` by default.
        meta: An object as JSON text that goes with the job.
        unique: Which jobs may not exist beside this one; none by default.
        singleton: Whether at most one job of the task, or of the task and the subject, waits or runs.
        subject: What a singleton is the only one for.
        force: Whether to add the job whatever its policy says.
        rerun: Whether to remember the payload when the job that bars this one runs.
        idempotency_key: A name of this very request; none by default.
    """

    task: str
    payload: str = "{}"
    queue: str | None = None
    run_at: datetime | None = None
    max_attempts: int | None = None
    priority: int | None = None
    flags: tuple[str, ...] = ()
    job_key: str | None = None
    job_key_mode: JobKeyMode | str | None = None
    meta: str | None = None
    unique: UniquePolicy | None = None
    singleton: bool = False
    subject: str | None = None
    force: bool = False
    rerun: bool = False
    idempotency_key: str | None = None

    @property
    def is_plain(self) -> bool:
        """Whether the job has nothing but a task, a payload, attempts and a priority: it can run now, as one row."""
        return self.queue is None and self.run_at is None and not self.flags and self.meta is None and self.is_keyless

    @property
    def is_keyless(self) -> bool:
        """Whether the job has no key and asks nothing about other jobs."""
        asks = self.unique is not None or self.singleton or self.idempotency_key is not None
        return self.job_key is None and not asks

    def with_options(self, **options: Unpack[JobOptions]) -> Self:
        """A copy with other options.

        Args:
            **options: See `JobOptions`; None leaves the option as it is.

        Returns:
            The new spec, checked.

        Raises:
            InvalidJob: An option breaks a rule.
            TypeError: An option does not exist.
        """
        if not options:
            check(self)
            return self
        given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
        if unknown := given.keys() - OPTIONS:
            raise TypeError(no_option(min(unknown)))
        if "flags" in given:
            given["flags"] = _flags(given["flags"])
        if "meta" in given:
            given["meta"] = _meta(given["meta"])
        if "unique" in given or "singleton" in given:
            given = _policy(given)
        spec = msgspec.structs.replace(self, **given)
        check(spec)
        return spec

    if not TYPE_CHECKING:  # Type checkers refuse to await a spec.

        def __await__(self) -> NoReturn:
            raise TypeError(
                "task.job(...) makes a spec and adds no job: write `await client.add_job(task.job(...))`, or "
                "`await ctx.add_job(...)` in a handler"
            )


def no_option(name: str) -> str:
    """The message for an unknown option; it names the option of asyncq for it, or all options."""
    there = f"; there are {', '.join(sorted(OPTIONS))}"
    return f"a job has no option {name!r}{hints.hint(name, OPTIONS, hints.JOB_OPTIONS) or there}"


def is_awaitable(answer: Any) -> bool:
    """Whether the result of a function has to be awaited; not a spec, whose `__await__` only raises."""
    return inspect.isawaitable(answer) and not isinstance(answer, JobSpec)


class Added(msgspec.Struct, frozen=True, gc=False):
    """What an add came to.

    Attributes:
        id: The id of the job that now stands for the request; of a rejected one, of the job that bars it.
        outcome: `"added"`; `"updated"`: a job that waited has what the add said, or one that runs begins anew with it;
            `"deduplicated"`: dropped, the job was there; `"rejected"`: refused, another job bars it.
        existing_id: The job that was there before, if one decided the outcome.
        existing_state: The state of that job.
    """

    id: int
    outcome: Outcome = "added"
    existing_id: int | None = None
    existing_state: JobState | None = None


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A stored job as it was when it was read.

    Attributes:
        payload: The payload as JSON text.
        attempts: Failed attempts before this run. A job that was discarded or failed by hand may have fewer than
            `max_attempts`; the view `asyncq.jobs` shows `max_attempts` for it.
        flags: The names of its flags, sorted.
        meta: The object that went with the job, None if there was none; `{"unreadable": why}` stands for one that was
            stored by an earlier release and cannot be read: nested too deep, or with a number beyond all limits.
        locked_by: The id of the worker that runs it.
        revision: How often a keyed add changed it.
        interruptions: How often in a row a shutdown interrupted it, or its transaction was aborted.
    """

    id: int
    task: str
    queue: str | None
    payload: str
    priority: int
    run_at: datetime
    attempts: int
    max_attempts: int
    last_error: str | None
    created_at: datetime
    updated_at: datetime
    key: str | None
    locked_at: datetime | None
    locked_by: str | None
    revision: int
    flags: tuple[str, ...]
    meta: dict[str, Any] | None
    state: JobState
    interruptions: int = 0


class Claim(msgspec.Struct, frozen=True, gc=False):
    """A job that this worker holds: the columns of `fetch_jobs`, in their order.

    None of them can lead back to it, so that the garbage collector need not look at it, of which there are many.

    Attributes:
        due: The moment of `run_at`, see `moment.py`; so are `created` and `updated`.
        is_packed: Of a job of a queue: whether it was claimed in a batch.
    """

    id: int
    task_id: int
    queue: str | None
    token: int
    attempts: int
    max_attempts: int
    interruptions: int
    priority: int
    revision: int
    due: int
    created: int
    updated: int
    key: str | None
    flags: str | None
    payload: str
    meta: str | None
    last_error: str | None
    is_packed: bool = False

    @property
    def run_at(self) -> datetime:
        """When it was due."""
        return datetime_of(self.due)

    @property
    def created_at(self) -> datetime:
        """When it was added."""
        return datetime_of(self.created)

    @property
    def updated_at(self) -> datetime:
        """When it was changed last."""
        return datetime_of(self.updated)

    @property
    def place(self) -> tuple[int, datetime, int]:
        """Where it stands in the order of running."""
        return (self.priority, self.run_at, self.id)


def check(spec: JobSpec) -> None:
    """Check a spec against the limits, as the SQL functions do, before any round trip.

    Args:
        spec: The spec.

    Raises:
        InvalidJob: The first rule that it breaks; `code` is the one that SQL raises for it.

    Source: the table of error codes in the README of graphile-worker, `GWBID` to `GWBKM`.
    """
    if not isinstance(spec.task, str) or not _is_name(spec.task):  # pyright: ignore[reportUnnecessaryIsInstance]
        _check_text("identifier", spec.task, MAX_NAME, "GWBID")
        _refuse(f"identifier {spec.task!r} is empty or holds a control character", "GWBID", "identifier")
    if spec.queue is not None:
        _check_text("queue", spec.queue, MAX_NAME, "GWBQN")
        if spec.queue == "default":
            _refuse("queue 'default' is reserved for jobs without a queue; choose another name", "GWBQN", "queue")
    if spec.job_key is not None:
        check_key(spec.job_key)
    if spec.max_attempts is not None:
        check_number("max_attempts", spec.max_attempts, 1, INT2, "GWBMA")
    if spec.priority is not None:
        check_number("priority", spec.priority, -INT2 - 1, INT2, "22003")
    if spec.run_at is not None:
        check_instant(spec.run_at)
    if spec.job_key_mode is not None and spec.job_key_mode not in tuple(JobKeyMode):
        modes = ", ".join(repr(str(mode)) for mode in JobKeyMode)
        _refuse(f"job_key_mode {spec.job_key_mode!r} is unknown, expected one of {modes}", "GWBKM", "job_key_mode")
    if spec.flags:
        _flags(spec.flags)
    if spec.meta is not None:
        check_meta(spec.meta)
    _check_policy(spec)
    if spec.idempotency_key is not None:
        _check_filled("idempotency_key", spec.idempotency_key, MAX_REQUEST, "GWBIK")


@functools.lru_cache(maxsize=1024)
def _is_name(task: str) -> bool:
    """Whether a task may have the name; most jobs have the name of the one before."""
    _check_text("identifier", task, MAX_NAME, "GWBID")
    return bool(task) and not _CONTROL.search(task)


def _check_policy(spec: JobSpec) -> None:
    """Check what a spec says about other jobs, as sql/functions/unique/extra.sql does."""
    if spec.unique is None and spec.subject is None and spec.singleton is spec.force is spec.rerun is False:
        return
    if spec.unique is not None and not isinstance(spec.unique, UniquePolicy):  # pyright: ignore[reportUnnecessaryIsInstance]
        _refuse(f"unique must be a UniquePolicy, got {spec.unique!r}", UNIQUE_CODE, "unique")
    for field in ("singleton", "force", "rerun"):
        if not isinstance(getattr(spec, field), bool):
            _refuse(f"{field} must be True or False, got {getattr(spec, field)!r}", UNIQUE_CODE, field)
    if spec.subject is not None:
        _check_filled("subject", spec.subject, MAX_KEY, UNIQUE_CODE)
    has_policy = spec.unique is not None or spec.singleton
    if fault := (
        "unique goes without singleton: both say which jobs may not exist beside each other"
        if spec.unique is not None and spec.singleton
        else "subject says for what a job is the only one: it needs singleton"
        if spec.subject is not None and not spec.singleton
        else "force lifts a policy: it needs unique or singleton"
        if spec.force and not has_policy
        else "rerun looks for a job that runs: it needs unique or singleton"
        if spec.rerun and not has_policy
        else "rerun goes without force, which adds the job in any case"
        if spec.rerun and spec.force
        else f"rerun waits for the job that runs, which unique.on_conflict '{spec.unique.on_conflict}' cancels"
        if spec.rerun and spec.unique is not None and spec.unique.on_conflict in REPLACING
        else f"job_key goes without unique and singleton: {_TWO_ANSWERS}"
        if spec.job_key is not None and has_policy and not spec.force
        else None
    ):
        _refuse(fault, UNIQUE_CODE, fault.partition(" ")[0])


def _check_filled(field: str, value: Any, limit: int, code: str) -> None:
    _check_text(field, value, limit, code)
    if not value:
        _refuse(f"{field} is empty, at least 1 character is needed", code, field, limit=1, length=0)


def check_key(key: Any) -> None:
    """Check a job key.

    Args:
        key: 1 to 512 characters.

    Raises:
        InvalidJob: It cannot be one.
    """
    _check_filled("job_key", key, MAX_KEY, "GWBJK")


def _check_text(field: str, value: Any, limit: int, code: str) -> None:
    check_is_text(field, value, code)
    if len(value) > limit:
        said = f"{field} is {len(value)} characters long, at most {limit} are allowed"
        _refuse(said, code, field, limit=limit, length=len(value))
    check_storable(field, value, code)


def check_is_text(field: str, value: Any, code: str = "22023") -> None:
    """Check that a value is a str; `code` is the one that SQL raises for it.

    Raises:
        InvalidJob: It is not.
    """
    if not isinstance(value, str):
        _refuse(f"{field} must be a str, got {value!r}", code, field)


def is_storable(text: str) -> bool:
    """Whether PostgreSQL can hold a text: it cannot hold U+0000 and lone surrogates."""
    return text.isprintable() or not ("\0" in text or any("\ud800" <= char <= "\udfff" for char in text))


def check_storable(field: str, value: str, code: str = "22023") -> None:
    """Check that PostgreSQL can hold a text; `code` is the one that SQL raises for it.

    Raises:
        InvalidJob: It holds U+0000 or a lone surrogate.
    """
    if not is_storable(value):
        _refuse(f"{field} {value!r} holds a character that PostgreSQL cannot store as text", code, field)


def check_number(field: str, value: Any, low: int, high: int, code: str) -> None:
    """Check that a value is an int between two others; `code` is the one that SQL raises for it.

    Raises:
        InvalidJob: It is not.
    """
    if not isinstance(value, int) or isinstance(value, bool):
        _refuse(f"{field} must be an int, got {value!r}", code, field)
    if not low <= value <= high:
        limit = low if value < low else high
        _refuse(f"{field} is {value}, expected {low} to {high}", code, field, limit=limit, length=value)


def check_instant(run_at: Any) -> None:
    """Check that a `run_at` is a datetime with a time zone, in the years 1 to 9999.

    Raises:
        InvalidJob: It is not.
    """
    if not isinstance(run_at, datetime):
        how = " (datetime.now(UTC) + it)" if isinstance(run_at, timedelta) else ""
        _refuse(f"run_at must be a datetime with a time zone, got {run_at!r}{how}", "22007", "run_at")
    if run_at.utcoffset() is None:
        said = f"run_at {run_at.isoformat()} has no time zone; use datetime.now(timezone.utc) + ... or .astimezone()"
        _refuse(said, "22007", "run_at")
    try:
        run_at.astimezone(UTC)
    except OverflowError:
        _refuse(f"run_at {run_at.isoformat()} is outside of the years 1 to 9999 in UTC", "22008", "run_at")


def _flags(flags: Any) -> tuple[str, ...]:
    if isinstance(flags, str | bytes) or not isinstance(flags, Iterable):
        _refuse(f"flags must be a list of str, got {flags!r}", "22023", "flags")
    names: list[Any] = list(flags)  # pyright: ignore[reportUnknownArgumentType]
    for name in names:
        _check_text("flags", name, MAX_NAME, "22023")
    return tuple(sorted(set(names)))


def _policy(given: dict[str, Any]) -> dict[str, Any]:
    """A policy takes the place of the one that was there: a job has one."""
    if "unique" in given:
        unique = given["unique"]
        parsed = unique if isinstance(unique, UniquePolicy) else UniquePolicy.parse(unique)
        return {"singleton": False, "subject": None} | given | {"unique": parsed}
    if given["singleton"]:
        return {"unique": None} | given
    return {"subject": None} | given


def _meta(meta: Any) -> str:
    if not isinstance(meta, dict):
        _refuse(f"meta must be a dict, got {meta!r}", "22023", "meta")
    return encode(meta, field="meta")


def _refuse(message: str, code: str, field: str, *, limit: int | None = None, length: int | None = None) -> NoReturn:
    raise InvalidJob(message, code=code, field=field, limit=limit, length=length)
