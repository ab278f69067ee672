"""The record of the options of a job that have no array of their own: its key under a policy, and its request.

sql/functions/unique/extra.sql is the same in SQL.
"""

from __future__ import annotations

import hashlib
from datetime import timedelta
from typing import Any

import msgspec

from asyncq.domain.canonical import quote
from asyncq.domain.job import JobSpec
from asyncq.domain.unique import DEFAULT_STATES, OnConflict, UniquePolicy

DEFAULT_WINDOW = timedelta(hours=24)
LONGEST_WINDOW = timedelta(days=366)

# A singleton is a policy like any other.
SINGLETON = UniquePolicy(on_conflict=OnConflict.IGNORE)

# Not a strategy of the Open Job Spec: the job has the key, but ignores other jobs.
FORCED = "add"

_encoder = msgspec.json.Encoder()


def options(spec: JobSpec, window: timedelta = DEFAULT_WINDOW) -> dict[str, Any]:
    """The options of a job as the SQL functions take them, for roles that cannot call `_add_jobs`.

    Args:
        spec: The checked job.
        window: How long its idempotency key is valid.

    Returns:
        The members that differ from their defaults.
    """
    said: dict[str, Any] = {
        "meta": spec.meta and msgspec.Raw(spec.meta.encode()),
        "unique": spec.unique,
        "singleton": spec.singleton,
        "subject": spec.subject,
        "force": spec.force,
        "rerun": spec.rerun,
        "idempotency_key": spec.idempotency_key,
        "idempotency_window_s": spec.idempotency_key and window.total_seconds(),
    }
    return {name: value for name, value in said.items() if value}


def singleton_key(task: str, subject: str | None = None) -> str:
    """The key of a singleton.

    Args:
        task: The task's identifier.
        subject: At most one job of the task waits or runs for it; None, the default, for the whole task. Then the key
            is that of the default unique policy, so that an add with such a policy can replace a waiting singleton.

    Returns:
        64 lower-case hexadecimal digits.
    """
    start = "" if subject is None else f'"subject":{quote(subject)},'
    return hashlib.sha256(f'{{{start}"type":{quote(task)}}}'.encode()).hexdigest()


def extra(spec: JobSpec, window: timedelta = DEFAULT_WINDOW) -> str | None:
    """The record of a job for `_add_jobs`: the options that concern other jobs.

    Args:
        spec: The checked job.
        window: How long its idempotency key is valid.

    Returns:
        JSON text for `_add_jobs`; None if all options have their defaults.

    Raises:
        InvalidJob: With the code GWBUP: the policy gives the job no key.
    """
    policy = SINGLETON if spec.singleton else spec.unique
    if policy is None and spec.idempotency_key is None:
        return None
    asked: dict[str, Any] = {}
    if policy is not None:
        asked = {
            "key": singleton_key(spec.task, spec.subject)
            if spec.singleton
            else policy.key(type=spec.task, queue=spec.queue, args=spec.payload, meta=spec.meta),
            "on_conflict": FORCED if spec.force else policy.on_conflict,
        }
        # Defaults are not sent, because reading them is a large part of the cost of a policy in bulk.
        if policy.states != DEFAULT_STATES:
            asked["states"] = policy.states
        if policy.period is not None:
            asked["period"] = policy.period
    if spec.rerun:
        asked["rerun"] = True
    if spec.idempotency_key is not None:
        asked |= {"request": spec.idempotency_key, "window_s": window.total_seconds()}
    return _encoder.encode(asked).decode()
