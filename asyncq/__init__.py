"""asyncq: an asyncio-native job queue on PostgreSQL. These are the public names."""

from asyncq.client import Client, add_job
from asyncq.domain.errors import (
    AccessDenied,
    AsyncqError,
    ConfigurationError,
    Discard,
    InvalidJob,
    JobNotFound,
    PoolExhausted,
    RetryAfter,
    SchemaError,
    SchemaMissing,
    SchemaTooNew,
    Snooze,
    StoreError,
    StoreUnavailable,
    TaskError,
    TransactionUnusable,
    UnknownTask,
    UnsupportedServer,
)
from asyncq.domain.events import Event, Observer, observer
from asyncq.domain.job import Added, Job, JobKeyMode, JobSpec, JobState
from asyncq.domain.retry import ConstantRetry, ExponentialRetry, FunctionRetry, LinearRetry, TableRetry
from asyncq.domain.task import Task, task
from asyncq.engine.context import JobContext
from asyncq.worker import Worker

__all__ = [
    "AccessDenied",
    "Added",
    "AsyncqError",
    "Client",
    "ConfigurationError",
    "ConstantRetry",
    "Discard",
    "Event",
    "ExponentialRetry",
    "FunctionRetry",
    "InvalidJob",
    "Job",
    "JobContext",
    "JobKeyMode",
    "JobNotFound",
    "JobSpec",
    "JobState",
    "LinearRetry",
    "Observer",
    "PoolExhausted",
    "RetryAfter",
    "SchemaError",
    "SchemaMissing",
    "SchemaTooNew",
    "Snooze",
    "StoreError",
    "StoreUnavailable",
    "TableRetry",
    "Task",
    "TaskError",
    "TransactionUnusable",
    "UnknownTask",
    "UnsupportedServer",
    "Worker",
    "add_job",
    "observer",
    "task",
]
