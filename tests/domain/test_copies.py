"""Every public value survives pickle and copies: it is sent to other processes, and stored in caches."""

import copy
import inspect
import pickle
import typing
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

import asyncq
import asyncq.testing
from asyncq import (
    CrontabProblem,
    Discard,
    DuplicateJob,
    Event,
    InvalidCrontab,
    InvalidJob,
    JobState,
    RetryAfter,
    Snooze,
    StoreUnavailable,
    UniquePolicy,
    UnknownTask,
    task,
)
from asyncq.domain import administration, checkup
from asyncq.domain.job import Claim
from asyncq.server import errors as of_server

MOMENT = datetime(2026, 1, 31, tzinfo=UTC)
CLAIM = Claim(7, 1, "q", 3, 0, 25, 0, 0, 0, 0, 0, 0, "k", '["f"]', "{}", "{}", "Boom: x")
REASON = asyncq.Reason("not_due", "due at noon")
FINDING = asyncq.Finding("laws", "ok", "they hold")
PROBLEM = CrontabProblem("no such day", "match", "backup", 3, 7)
(LISTED,) = asyncq.parse_crontab("\n\n0 3 * * * backup")


@task
async def hello(name: str) -> None:
    """A task of this module."""


def every_noon(digest: asyncq.TimeDigest) -> bool:
    """A matcher."""
    return digest.hour == 12


def wait_s(attempt: int) -> float:
    """A retry function."""
    return 10.0 * attempt


SAMPLES: list[Any] = [
    asyncq.Timeout(soft=20, hard="30 s"),
    asyncq.Collect(max=9, within="1 s"),
    asyncq.Limit(3, by="tenant_id", name="tenants", total=9),
    asyncq.Rate(3, per="1 s", by="tenant_id"),
    asyncq.Queue("reports", concurrency=3, rate=asyncq.Rate(3, per="1 s")),
    RetryAfter(5, "busy", partition=True),
    Snooze(timedelta(minutes=1)),
    Discard("no use"),
    InvalidJob("a payload is too large", code="GWBPL", field="payload", limit=5, length=6),
    UnknownTask("helo", "hello"),
    DuplicateJob(7, JobState.ACTIVE),
    asyncq.JobNotFound(7),
    asyncq.ClaimLost(7),
    asyncq.RaisedInProcess("boom", type_name="ValueError", error="ValueError: boom"),
    asyncq.CronItemConflict("backup is stored already", "stored"),
    InvalidCrontab([PROBLEM, PROBLEM], "jobs.crontab"),
    PROBLEM,
    asyncq.StoreError("refused", sqlstate="42501"),
    StoreUnavailable("gone", outcome="unknown", sqlstate="57P01"),
    of_server.ServerFailed("it did not start", "the log"),
    asyncq.Added(7, "rejected", 6, JobState.ACTIVE),
    asyncq.Handle(7, "rejected", 6, JobState.ACTIVE),
    asyncq.Ended(id=7, task="hello", state=JobState.COMPLETED, attempts=1, result="5"),
    asyncq.JobFailedError(7, "hello", 3, "Boom: x"),
    asyncq.JobCancelledError(7, "hello"),
    asyncq.ResultUnavailable(7, "it is too large"),
    asyncq.WaitTimeout(7, 30.0),
    CLAIM,
    UniquePolicy(keys=["type", "args"], args_keys=["a"], period=timedelta(hours=1), on_conflict="ignore"),
    hello.job("Bobby").with_options(queue="q", flags=["f"], unique=UniquePolicy(), meta={"a": 1}),
    asyncq.Job(
        id=7,
        task="hello",
        queue=None,
        payload="{}",
        priority=0,
        run_at=MOMENT,
        attempts=1,
        max_attempts=25,
        last_error="Boom: x",
        created_at=MOMENT,
        updated_at=MOMENT,
        key="k",
        locked_at=MOMENT,
        locked_by="1",
        revision=2,
        flags=("f",),
        meta={"a": 1},
        state=JobState.RETRYABLE,
    ),
    asyncq.Counts(active=3, estimated=(JobState.ACTIVE,)),
    REASON,
    asyncq.Explanation(7, False, (REASON,)),  # noqa: FBT003
    asyncq.Violation("orphan_claim", 7, "is nobody's"),
    asyncq.DeadRows("_jobs", 1, 2, MOMENT),
    asyncq.FirstJobs(10, 20, 0.5),
    FINDING,
    asyncq.Repaired((7,), 3),
    asyncq.TimeDigest(0, 12, 31, 1, 6),
    asyncq.CronStatus(identifier="backup", source="stored", fill=timedelta(hours=1)),
    asyncq.CronItem("backup", "0 3 * * *", payload={"full": True}, flags=["f"], fill=timedelta(hours=1)),
    asyncq.CronItem("backup", every_noon),
    asyncq.CronItem(hello, "0 3 * * *", payload={"name": "Bobby"}),
    LISTED,
    asyncq.ConstantRetry(60, jitter=0.5),
    asyncq.LinearRetry(timedelta(seconds=30)),
    asyncq.ExponentialRetry(first=2, factor=3),
    asyncq.TableRetry([1, timedelta(minutes=5)]),
    asyncq.FunctionRetry(wait_s),
    asyncq.Limit(3, by="tenant_id", name="tenants", total=9),
    asyncq.Rate(2, "1 min", by="api_key"),
    asyncq.Queue("reports", concurrency=4),
    asyncq.Share("reports", at_once=2, weight=3),
    asyncq.testing.Ran(
        started=[7],
        tasks=["hello"],
        completed=[7],
        retried=[],
        discarded=[],
        snoozed=[],
        held_back={"hello": 2},
        errors={},
        events=[asyncq.JobStarted(claim=CLAIM, task="hello", attempt=1, worker_id=3)],
    ),
]
# Structs are made of values of their types; an exception without own attributes is made of a sentence.
BY_TYPE: dict[Any, Any] = {
    int: 3,
    float: 1.25,
    str: "words",
    bool: True,
    datetime: MOMENT,
    asyncq.JobState: asyncq.JobState.COMPLETED,
    Claim: CLAIM,
}
# Names that are no values: functions, clients and workers, types for annotations, parts of a run, workflows that are
# not added yet, and a constant.
NO_VALUES = {
    "CAPABILITIES",
    "Add",
    "AddMiddleware",
    "Admin",
    "Call",
    "Client",
    "Codec",
    "Flow",
    "Group",
    "JobContext",
    "JobOptions",
    "JobsContext",
    "Middleware",
    "MovableClock",
    "Observer",
    "Resource",
    "RetryPolicy",
    "RunInfo",
    "SyncAdd",
    "SyncAddMiddleware",
    "SyncClient",
    "Worker",
}


def public() -> dict[str, Any]:
    """All public names."""
    return {name: getattr(kit, name) for kit in (asyncq, asyncq.testing) for name in kit.__all__}


def sample(kind: Any) -> Any:
    """A value of a type, made of its fields."""
    if issubclass(kind, Exception):
        return kind("no such thing")
    # The module of public classes is `asyncq`, which lacks the names of their annotations.
    hints = typing.get_type_hints(kind, localns={**vars(administration), **vars(checkup)})
    return kind(**{name: value_of(hints[name]) for name in kind.__struct_fields__})


def value_of(hint: Any) -> Any:
    """A value for a field."""
    if hint in BY_TYPE:
        return BY_TYPE[hint]
    if hint is Any:
        return {"user": 7}
    arguments = typing.get_args(hint)
    if typing.get_origin(hint) is typing.Literal:
        return arguments[0]
    if typing.get_origin(hint) is tuple:
        return (value_of(arguments[0]),)
    return value_of(arguments[0]) if arguments else sample(hint)


def values() -> list[Any]:
    """One value at least of each public type."""
    made = {type(value) for value in SAMPLES}
    kinds = [kind for kind in public().values() if inspect.isclass(kind) and kind.__name__ not in NO_VALUES]
    enums = [member for kind in kinds if hasattr(kind, "__members__") for member in kind]
    others = [
        kind for kind in kinds if kind not in made and kind is not asyncq.Task and not hasattr(kind, "__members__")
    ]
    return [*SAMPLES, *enums, *map(sample, others)]


def shown(value: Any) -> tuple[Any, ...]:
    """Type, text and attributes."""
    is_error = isinstance(value, BaseException)
    own = (value.args, vars(value)) if is_error else (value, getattr(value, "line", None))
    return (type(value), str(value), repr(value), *own)


@pytest.mark.parametrize("value", values(), ids=lambda value: type(value).__name__)
def test_a_public_value_survives_pickle_and_copies(value: Any) -> None:
    """Text and attributes survive every protocol of pickle."""
    pickled = [pickle.loads(pickle.dumps(value, protocol)) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)]
    copies = [*pickled, copy.copy(value), copy.deepcopy(value)]

    assert [shown(value)] * len(copies) == [*map(shown, copies)]


def test_an_exception_keeps_its_notes() -> None:
    """`raise_errors` of the test kit names the job in one."""
    error = RetryAfter(5, "busy")
    error.add_note("job 7")

    assert ["job 7"] == pickle.loads(pickle.dumps(error)).__notes__
    assert ["job 7"] == copy.deepcopy(error).__notes__


class Throttled(RetryAfter):
    """A verdict of a program of its own, with parameters of its own."""

    def __init__(self, tenant: str, *, wait: float) -> None:
        super().__init__(wait, f"{tenant} is throttled")
        self.tenant = tenant


class Missing(InvalidJob):
    """An error of a program of its own, which calls no `__init__`."""

    def __init__(self, *, field: str) -> None:
        self.field = field


@pytest.mark.parametrize("error", [Throttled("acme", wait=5), Missing(field="a")], ids=["Throttled", "Missing"])
def test_a_subclass_of_a_public_exception_survives(error: Exception) -> None:
    """Its `__init__` is not called again, so that its parameters do not matter."""
    assert shown(error) == shown(pickle.loads(pickle.dumps(error)))
    assert shown(error) == shown(copy.deepcopy(error))


def test_a_copy_shares_no_attributes() -> None:
    """A change of the copy leaves the original as it was."""
    error = InvalidJob("x", code="GWBPL", field="payload")
    copied = copy.copy(error)
    copied.field = "other"

    assert "payload" == error.field


def test_a_task_is_pickled_and_copied_deeply_by_its_name() -> None:
    """Functions are copied in the same way: the copy is the same object."""
    assert hello is pickle.loads(pickle.dumps(hello))
    assert hello is copy.deepcopy(hello)


def test_every_public_class_is_a_value_or_listed_as_none() -> None:
    """A new public name needs a value in this test."""
    kinds = {name: kind for name, kind in public().items() if inspect.isclass(kind)}
    tried = {type(value) for value in values()}
    left = {name for name, kind in kinds.items() if kind not in tried and name not in NO_VALUES}

    assert {"Task"} == left
    assert NO_VALUES - {"CAPABILITIES"} <= set(kinds)
    dataclasses = (
        CrontabProblem | asyncq.Collect | asyncq.Limit | asyncq.Queue | asyncq.Rate | asyncq.Share | asyncq.Timeout
    )
    assert all(issubclass(kind, Exception | msgspec.Struct | Event | str | dataclasses) for kind in tried)
