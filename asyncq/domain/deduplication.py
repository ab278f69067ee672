"""The options of a job as SQL takes them: as a record of checked ones, or as the object `options` of `add_job`.

sql/functions/add/new_job.sql makes the same record from that object.
"""

import hashlib
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from asyncq.domain.base_types import write_json
from asyncq.domain.canonical import quote
from asyncq.domain.errors import ConfigurationError
from asyncq.domain.job import JobSpec
from asyncq.domain.time_limit import NO_EXTRAS, Extras, extras_of
from asyncq.domain.unique import DEFAULT_STATES, OnConflict, UniquePolicy

DEFAULT_WINDOW = timedelta(hours=24)
LONGEST_WINDOW = timedelta(days=366)

# A singleton is a policy like any other.
SINGLETON = UniquePolicy(on_conflict=OnConflict.IGNORE)

# Not a strategy of the Open Job Spec: the job has the key, but ignores other jobs.
FORCED = "add"


def check_window(window: Any) -> timedelta:
    """Return a window of idempotency keys; ConfigurationError unless it is above 0 and at most 366 days."""
    if not isinstance(window, timedelta) or not timedelta(0) < window <= LONGEST_WINDOW:
        said = f"idempotency_window is a timedelta above 0 of at most {LONGEST_WINDOW.days} days"
        raise ConfigurationError(f"{said}, got {window!r}")
    return window


def options(spec: JobSpec, window: timedelta = DEFAULT_WINDOW) -> dict[str, Any]:
    """The options of a checked job that differ from their defaults, for roles that cannot call `_add_jobs`."""
    said: dict[str, Any] = {
        "meta": spec.meta and msgspec.Raw(spec.meta.encode()),
        "unique": spec.unique,
        "singleton": spec.singleton,
        "subject": spec.subject,
        "force": spec.force,
        "rerun": spec.rerun,
        "idempotency_key": spec.idempotency_key,
        "idempotency_window_s": spec.idempotency_key and window.total_seconds(),
        **(
            msgspec.structs.asdict(extras)
            if (extras := extras_of(spec.timeout, spec.keep, None, spec.if_failed))
            else {}
        ),
        "expires_s": _seconds(spec.expires),
        "expires_at": _moment(spec.expires),
        "deadline_s": _seconds(spec.deadline),
        "deadline_at": _moment(spec.deadline),
        "after": spec.after,
        "takes": spec.takes,
        "takes_as": spec.takes_as,
    }
    return {name: value for name, value in said.items() if value or (name in ("keep_s", "after") and value is not None)}


def singleton_key(task: str, subject: str | None = None) -> str:
    """The key of a singleton, for a subject or for the whole task: 64 lower-case hexadecimal digits.

    Without a subject it is that of the default unique policy: an add with that policy can replace a waiting singleton.
    """
    start = "" if subject is None else f'"subject":{quote(subject)},'
    return hashlib.sha256(f'{{{start}"type":{quote(task)}}}'.encode()).hexdigest()


class Record(msgspec.Struct, omit_defaults=True):
    """The record of a job's options: each member is an attribute of `_new_job` in SQL, None for the default."""

    max_attempts: int | None = None
    priority: int | None = None
    flags: dict[str, bool] | None = None
    job_key: str | None = None
    job_key_mode: str | None = None
    meta: msgspec.Raw | None = None
    unique_key: str | None = None
    states: Collection[str] | None = None
    period: str | timedelta | None = None
    on_conflict: str | None = None
    rerun: bool | None = None
    idempotency_key: str | None = None
    window_s: float | None = None
    extras: Extras | None = None
    expires_s: float | None = None
    expires_at: datetime | None = None
    deadline_s: float | None = None
    deadline_at: datetime | None = None
    after: tuple[int, ...] | None = None


def extra(spec: JobSpec, window: timedelta = DEFAULT_WINDOW, *, overlap: tuple[str, str] | None = None) -> str | None:
    """The record of a checked job's options for `_add_many_jobs` as JSON; None if all options have their defaults.

    It lacks the task, payload, queue and time. `overlap` is the key and the strategy of a job without a policy of its
    own. InvalidJob (GWBUP): the policy gives the job no key.
    """
    record = Record(
        max_attempts=spec.max_attempts,
        priority=spec.priority,
        flags=dict.fromkeys(spec.flags, True) if spec.flags else None,
        job_key=spec.job_key,
        job_key_mode=spec.job_key_mode,
        meta=None if spec.meta is None else msgspec.Raw(spec.meta.encode()),
        rerun=spec.rerun or None,
        idempotency_key=spec.idempotency_key,
        window_s=None if spec.idempotency_key is None else window.total_seconds(),
    )
    watcher = spec.returns.watcher
    if_failed = spec.if_failed if spec.after and spec.if_failed != "wait" else None
    if spec.timeout is not None or spec.keep is not None or watcher is not None or if_failed is not None:
        record.extras = extras_of(spec.timeout, spec.keep, watcher, if_failed)
    if spec.expires is not None:
        record.expires_s, record.expires_at = _seconds(spec.expires), _moment(spec.expires)
    if spec.deadline is not None:
        record.deadline_s, record.deadline_at = _seconds(spec.deadline), _moment(spec.deadline)
    if spec.after:
        record.after = spec.after
        if spec.takes is not None:
            record.extras = msgspec.structs.replace(
                record.extras or NO_EXTRAS, takes=spec.takes, takes_as=spec.takes_as, inputs=len(spec.after)
            )
    if spec.singleton or spec.unique is not None:
        policy = spec.unique or SINGLETON
        key = (
            singleton_key(spec.task, spec.subject)
            if spec.singleton
            else policy.key(type=spec.task, queue=spec.queue, args=spec.payload, meta=spec.meta)
        )
        overlap = (key, FORCED if spec.force else policy.on_conflict)
        # Defaults are not sent, because reading them is a large part of the cost of a policy in bulk.
        record.states = None if policy.states == DEFAULT_STATES else policy.states
        record.period = policy.period
    if overlap is not None:
        key, record.on_conflict = overlap
        record.unique_key = f"\\x{key}"
    text = write_json(record).decode()
    return None if text == "{}" else text


def _seconds(expiry: timedelta | datetime | None) -> float | None:
    return expiry.total_seconds() if isinstance(expiry, timedelta) else None


def _moment(expiry: timedelta | datetime | None) -> datetime | None:
    return expiry.astimezone(UTC) if isinstance(expiry, datetime) else None
