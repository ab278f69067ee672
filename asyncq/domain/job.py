"""The forms of a job: the request (`JobSpec`), the stored row (`Job`), the answer to an add (`Added`)."""

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Generic, Literal, NoReturn, Self, TypedDict, TypeVar, Unpack

import msgspec

from asyncq.domain import hints
from asyncq.domain.after import AFTER_CODE, HasId, IfFailed, Takes, as_after, check_after, check_if_failed, check_takes
from asyncq.domain.attempt import Attempt
from asyncq.domain.errors import ConfigurationError, InvalidJob
from asyncq.domain.meta import check_meta
from asyncq.domain.moment import datetime_of
from asyncq.domain.payload import encode
from asyncq.domain.progress import Progress
from asyncq.domain.result import Returns
from asyncq.domain.states import JobState
from asyncq.domain.step import Step
from asyncq.domain.stored_text import is_storable
from asyncq.domain.time_limit import Duration, Keep, Timeout, as_expiry, as_keep_s, as_timeout
from asyncq.domain.unique import UNIQUE_CODE, OnConflict, UniquePolicy

MAX_NAME = 128
MAX_KEY = 512
MAX_REQUEST = 200
INT2 = 32767

Outcome = Literal["added", "updated", "deduplicated", "rejected"]


class JobKeyMode(StrEnum):
    """The effect of an add when a job with its key exists."""

    REPLACE = "replace"
    PRESERVE_RUN_AT = "preserve_run_at"
    UNSAFE_DEDUPE = "unsafe_dedupe"


class JobOptions(TypedDict, total=False):
    """The options of every add; None means the task's default.

    Attributes:
        queue: The named queue, at most 128 characters; its jobs run one after the other.
        run_at: The earliest start, with a time zone.
        max_attempts: The number of attempts in all, 1 to 32767.
        priority: -32768 to 32767, lower first.
        flags: Names that a worker may forbid, at most 128 characters each.
        job_key: A name of 1 to 512 characters that at most one waiting or running job has; none by default.
        job_key_mode: The effect of an add when a job has the key; `replace` by default.
        meta: An object that is stored with the job.
        unique: A `UniquePolicy`, or an object of its members: which jobs prevent this one. It replaces the task's
            policy.
        singleton: Whether at most one job of the task waits or runs; a further add is dropped.
        subject: Restricts `singleton` to jobs with the same subject, 1 to 512 characters; by default the whole task.
        force: Whether to add the job in spite of its policy; it then prevents later ones.
        rerun: Whether to remember the payload if the job that prevents this one runs: at its end it runs again.
        idempotency_key: A name of this request, 1 to 200 characters. An add with the same key within the client's
            `idempotency_window` (a day for adds by a context) returns the same job. None by default.
        timeout: The time limit of one attempt: seconds, a timedelta, text such as `"30 s"`, or a `Timeout`. It replaces
            the task's limits.
        expires: The time by which its first run has to start, else it ends as cancelled: a duration from the add (or
            from `run_at`, if that is later), or a datetime with a time zone. None by default.
        deadline: The end of all its attempts, in the same forms: a run is cut off then, and no retry starts later.
        keep: How long it is kept after its end, with its payload and result: a duration; False for not at all. It
            replaces the time of the task and of the worker.
        after: Jobs that have to end first: their ids, or what `add_job` returned; at most 100,000. The job is pending
            until then.
        if_failed: What happens if one of these is discarded: it stays pending (`"wait"`, the default), is cancelled
            (`"cancel"`), or starts in any case (`"run"`), also if one is cancelled.
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
    timeout: Timeout | Duration | None
    expires: Duration | datetime | None
    deadline: Duration | datetime | None
    keep: Keep | None
    after: Iterable[int | HasId] | None
    if_failed: IfFailed | None


# Characters that break a log line or a terminal.
CONTROL = re.compile("[\x00-\x1f\x7f]")

OPTIONS = frozenset(JobOptions.__annotations__)

_TWO_ANSWERS = "they are two answers to what becomes of an add beside another job"

REPLACING = (OnConflict.REPLACE, OnConflict.REPLACE_EXCEPT_SCHEDULE)


if TYPE_CHECKING:
    # The type checkers know this module, which need not be installed. At run time nothing reads the default.
    from typing_extensions import TypeVar as TypeVarWithDefault

    ResultT_co = TypeVarWithDefault("ResultT_co", covariant=True, default=Any)
else:
    ResultT_co = TypeVar("ResultT_co", covariant=True)

_ANY_RESULT = Returns()


class JobSpec(msgspec.Struct, Generic[ResultT_co], frozen=True, kw_only=True, gc=False):
    """A job to be added, with all fields but the id. None means the default. `JobOptions` explains the other fields.

    No field can refer back to it, so the garbage collector need not visit it; there are many.

    Attributes:
        task: The task's identifier, at most 128 characters.
        payload: The payload as JSON text; `{}` by default.
        run_at: The earliest start, with a time zone; now by default.
        max_attempts: The number of attempts in all, 1 to 32767; 25 by default.
        priority: -32768 to 32767, lower first; 0 by default.
        meta: An object, as JSON text, that is stored with the job.
        unique: A `UniquePolicy`, which prevents the add beside certain jobs; none by default.
        keep: For how many seconds the ended job is kept, 0 for not at all; as its task by default.
        after: The ids of the jobs that have to end first; None for none. `-1` is the first job of the same call of
            `add_jobs`, `-2` the second one, for later jobs of the call.
        takes: Its payload is the result of the job in `after` (`"result"`), or the list of all their results, in the
            order of `after` (`"results"`). None, the default, for its own payload.
        takes_as: The member of the payload that gets these results; None, the default, for the whole payload.
        returns: How its result is read; `task.job(...)` sets it. It counts in no comparison.
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
    timeout: Timeout | None = None
    expires: timedelta | datetime | None = None
    deadline: timedelta | datetime | None = None
    keep: float | None = None
    after: tuple[int, ...] | None = None
    if_failed: IfFailed | None = None
    takes: Takes | None = None
    takes_as: str | None = None
    returns: Returns = _ANY_RESULT

    @property
    def is_plain(self) -> bool:
        """Whether the job has only a task, a payload, attempts and a priority: it can run now, as one row.

        Its client may await it.
        """
        return self == JobSpec(
            task=self.task, payload=self.payload, max_attempts=self.max_attempts, priority=self.priority
        )

    @property
    def is_keyless(self) -> bool:
        """Whether the job has no job key, policy, idempotency key or `after`, and so depends on no other jobs."""
        return self.job_key is self.unique is self.idempotency_key is self.after is None and not self.singleton

    def with_options(self, **options: Unpack[JobOptions]) -> Self:
        """Copy the spec with other options.

        Args:
            **options: See `JobOptions`; None leaves an option unchanged.

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
            name, there = min(unknown), f"; there are {', '.join(sorted(OPTIONS))}"
            raise TypeError(f"a job has no option {name!r}{hints.hint(name, OPTIONS, hints.JOB_OPTIONS) or there}")
        if "flags" in given:
            given["flags"] = _flags(given["flags"])
        if "meta" in given:
            given["meta"] = _meta(given["meta"])
        if "unique" in given or "singleton" in given:
            given = _policy(given)
        if "timeout" in given:
            given["timeout"] = _limit(as_timeout, given["timeout"], "timeout")
        for name in ("expires", "deadline"):
            if name in given:
                given[name] = _limit(functools.partial(as_expiry, name=name), given[name], name)
        if "keep" in given:
            given["keep"] = _limit(as_keep_s, given["keep"], "keep")
        if "after" in given:
            given["after"] = as_after(given["after"])
        spec = msgspec.structs.replace(self, **given)
        check(spec)
        return spec

    if not TYPE_CHECKING:  # Type checkers refuse to await a spec.

        def __await__(self) -> NoReturn:
            raise TypeError(
                "task.job(...) makes a spec and adds no job: write `await client.add_job(task.job(...))`, or "
                "`await ctx.add_job(...)` in a handler"
            )


def is_awaitable(answer: Any) -> bool:
    """Whether the result of a function must be awaited; a spec must not, because its `__await__` only raises."""
    return inspect.isawaitable(answer) and not isinstance(answer, JobSpec)


class Added(msgspec.Struct, frozen=True, gc=False):
    """The result of an add.

    Attributes:
        id: The id of the job that represents the request. If it was rejected, of the job that prevents it.
        outcome: `"added"`. `"updated"`: a waiting job was changed by the add, or a running one runs again with it.
            `"deduplicated"`: dropped, because the job exists. `"rejected"`: refused, because another job prevents it.
        existing_id: The id of the earlier job, if one decided the outcome.
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
        attempts: Failed attempts before this run. A job that was discarded by hand or by `Discard` may have fewer than
            `max_attempts`; the view `asyncq.jobs` shows `max_attempts` for it.
        flags: The names of its flags, sorted.
        meta: The object that is stored with the job, None if there is none. `{"unreadable": why}` replaces one of an
            earlier release that cannot be read: nested too deep, or with a number beyond the limits.
        locked_by: The id of the worker that runs it.
        revision: The number of keyed adds that changed it.
        interruptions: The number of interruptions in a row, by a shutdown or an aborted transaction.
        progress: The last report of `ctx.progress` in this run; None if there is none.
        timeout_s: The time limit of one attempt that the job has of its own; None if its task's applies.
        soft_s: The soft limit, likewise.
        expires_at: By when its first run has to start; None for no limit, and once a run began.
        deadline_at: The end of all its attempts.
        errors: Its failed attempts, the first one first; only `Client.get_job` reads them.
        steps: Its steps that are done, the first one first; only `Client.get_job` reads them.
        ended_at: Its end; None if it has not ended. The fields below are those of an ended job that is kept. Then
            `payload` is `null` if it is not kept, `last_error` is None if the job completed, `updated_at` is its end,
            and `key`, `flags` and `revision` are not known any more.
        started_at: The start of its last run; None if it never ran, or that is not known.
        worker_id: The id of the worker that ran it last.
        result: The return value of its handler as JSON text; None if there is none.
        keep_until: Until when it is kept; None for ever.
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
    progress: Progress | None = None
    timeout_s: float | None = None
    soft_s: float | None = None
    expires_at: datetime | None = None
    deadline_at: datetime | None = None
    errors: tuple[Attempt, ...] = ()
    steps: tuple[Step, ...] = ()
    ended_at: datetime | None = None
    started_at: datetime | None = None
    worker_id: int | None = None
    result: str | None = None
    keep_until: datetime | None = None


class Claim(msgspec.Struct, frozen=True, gc=False):
    """A job that this worker holds: the columns of the type `_claim`, in their order.

    No field can refer back to it, so the garbage collector need not visit it; there are many. For `due`, `created` and
    `updated` see `moment.py`. `extras` is JSON, None for most jobs. `expires_at`
    and `deadline_at` are times on the performance counter. `partition` is that of a job that a queue or a limit
    holds back. `is_packed`: whether such a job was claimed in a batch. `start_by`: when its handler has to start at the
    latest, by the clock of leases; None if it need not.
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
    extras: str | None = None
    expires_at: float | None = None
    deadline_at: float | None = None
    partition: int | None = None
    is_packed: bool = False
    start_by: float | None = None

    @property
    def run_at(self) -> datetime:
        return datetime_of(self.due)

    @property
    def created_at(self) -> datetime:
        return datetime_of(self.created)

    @property
    def updated_at(self) -> datetime:
        return datetime_of(self.updated)

    @property
    def place(self) -> tuple[int, datetime, int]:
        """Its place in the order of running."""
        return (self.priority, self.run_at, self.id)


def check(spec: JobSpec) -> None:
    """Check a spec against the limits, before any round trip; InvalidJob has the code that SQL raises for the rule.

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
        check_instant(spec.run_at, "run_at")
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
    if spec.expires is not None:
        _check_expiry(spec.expires, "expires")
    if spec.deadline is not None:
        _check_expiry(spec.deadline, "deadline")
    if spec.timeout is not None and not isinstance(spec.timeout, Timeout):  # pyright: ignore[reportUnnecessaryIsInstance]
        _refuse(f"timeout of a JobSpec must be a Timeout, got {spec.timeout!r}", "GWBDU", "timeout")
    if spec.keep is not None and spec.keep != 0.0:
        _limit(as_keep_s, spec.keep, "keep")
    if spec.after is not None or spec.if_failed is not None or spec.takes is not None or spec.takes_as is not None:
        _check_after(spec)


@functools.lru_cache(maxsize=1024)
def _is_name(task: str) -> bool:
    """Whether the name is valid for a task; most jobs have the name of the job before."""
    _check_text("identifier", task, MAX_NAME, "GWBID")
    return bool(task) and not CONTROL.search(task)


def _check_after(spec: JobSpec) -> None:
    """Check the options about jobs that have to end first, as sql/functions/workflow/after.sql does."""
    if spec.after is None:
        if spec.if_failed is None:
            said = "takes says that the results of other jobs are the payload: it needs after"
            _refuse(said, AFTER_CODE, "takes")
        said = "if_failed says what becomes of a job whose after has failed: it needs after"
        _refuse(said, AFTER_CODE, "if_failed")
    check_after(spec.after)
    if spec.job_key is not None:
        _refuse("after goes without job_key: an add changes the waiting job that has its key", AFTER_CODE, "after")
    if spec.rerun:
        _refuse("after goes without rerun: the job that runs would run again without waiting", AFTER_CODE, "after")
    if spec.if_failed is not None:
        check_if_failed(spec.if_failed)
    check_takes(spec.takes, spec.takes_as, spec.after)


def _check_policy(spec: JobSpec) -> None:
    """Check the options about other jobs, as sql/functions/add/new_job.sql does."""
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
    """Raise InvalidJob unless a job key is a str of 1 to 512 characters."""
    _check_filled("job_key", key, MAX_KEY, "GWBJK")


def _check_text(field: str, value: Any, limit: int, code: str) -> None:
    check_is_text(field, value, code)
    if len(value) > limit:
        said = f"{field} is {len(value)} characters long, at most {limit} are allowed"
        _refuse(said, code, field, limit=limit, length=len(value))
    check_storable(field, value, code)


def check_is_text(field: str, value: Any, code: str = "22023") -> None:
    """Raise InvalidJob unless a value is a str; `code` is the one that SQL raises for it."""
    if not isinstance(value, str):
        _refuse(f"{field} must be a str, got {value!r}", code, field)


def check_storable(field: str, value: str, code: str = "22023") -> None:
    """Raise InvalidJob unless PostgreSQL can hold a text; `code` is the one that SQL raises for it."""
    if not is_storable(value):
        _refuse(f"{field} {value!r} holds a character that PostgreSQL cannot store as text", code, field)


def check_number(field: str, value: Any, low: int, high: int, code: str) -> None:
    """Raise InvalidJob unless a value is an int between two others; `code` is the one that SQL raises for it."""
    if not isinstance(value, int) or isinstance(value, bool):
        _refuse(f"{field} must be an int, got {value!r}", code, field)
    if not low <= value <= high:
        limit = low if value < low else high
        _refuse(f"{field} is {value}, expected {low} to {high}", code, field, limit=limit, length=value)


def check_instant(value: Any, field: str) -> None:
    """Raise InvalidJob unless a value is a datetime with a time zone, in the years 1 to 9999."""
    if not isinstance(value, datetime):
        how = " (datetime.now(UTC) + it)" if isinstance(value, timedelta) else ""
        _refuse(f"{field} must be a datetime with a time zone, got {value!r}{how}", "22007", field)
    if value.utcoffset() is None:
        said = f"{field} {value.isoformat()} has no time zone; use datetime.now(timezone.utc) + ... or .astimezone()"
        _refuse(said, "22007", field)
    try:
        value.astimezone(UTC)
    except OverflowError:
        _refuse(f"{field} {value.isoformat()} is outside of the years 1 to 9999 in UTC", "22008", field)


def _check_expiry(value: Any, field: str) -> None:
    if isinstance(value, datetime):
        check_instant(value, field)
    else:
        _limit(functools.partial(as_expiry, name=field), value, field)


def _flags(flags: Any) -> tuple[str, ...]:
    if isinstance(flags, str | bytes) or not isinstance(flags, Iterable):
        _refuse(f"flags must be a list of str, got {flags!r}", "22023", "flags")
    names: list[Any] = list(flags)  # pyright: ignore[reportUnknownArgumentType]
    for name in names:
        _check_text("flags", name, MAX_NAME, "22023")
    return tuple(sorted(set(names)))


def _policy(given: dict[str, Any]) -> dict[str, Any]:
    """Complete the options about a policy: the given kind replaces the other one, because a job has one policy."""
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


def _limit(read: Callable[[Any], Any], given: Any, field: str) -> Any:
    """Read a time limit; InvalidJob with the code that SQL raises if it is not valid."""
    try:
        return read(given)
    except ConfigurationError as error:
        raise InvalidJob(str(error), code="GWBDU", field=field) from error


def _refuse(message: str, code: str, field: str, *, limit: int | None = None, length: int | None = None) -> NoReturn:
    raise InvalidJob(message, code=code, field=field, limit=limit, length=length)
