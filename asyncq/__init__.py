"""asyncq: an asyncio-native job queue on PostgreSQL. These are the public names.

Each one is imported as itself: that is how type checkers know that it is public.
"""

from types import ModuleType as _ModuleType

from asyncq.admin import Admin as Admin
from asyncq.client import Client as Client
from asyncq.client import add_job as add_job
from asyncq.domain.administration import Counts as Counts
from asyncq.domain.administration import Explanation as Explanation
from asyncq.domain.administration import Reason as Reason
from asyncq.domain.administration import WorkerInfo as WorkerInfo
from asyncq.domain.capabilities import CAPABILITIES as CAPABILITIES
from asyncq.domain.checkup import Checkup as Checkup
from asyncq.domain.checkup import DeadRows as DeadRows
from asyncq.domain.checkup import Finding as Finding
from asyncq.domain.checkup import FirstJobs as FirstJobs
from asyncq.domain.checkup import Holder as Holder
from asyncq.domain.checkup import Repaired as Repaired
from asyncq.domain.checkup import Violation as Violation
from asyncq.domain.cron.builders import daily as daily
from asyncq.domain.cron.builders import every as every
from asyncq.domain.cron.builders import every_minute as every_minute
from asyncq.domain.cron.builders import hourly as hourly
from asyncq.domain.cron.builders import monthly as monthly
from asyncq.domain.cron.builders import weekly as weekly
from asyncq.domain.cron.builders import yearly as yearly
from asyncq.domain.cron.item import CronItem as CronItem
from asyncq.domain.cron.item import parse_cron_items as parse_cron_items
from asyncq.domain.cron.slot import next_run as next_run
from asyncq.domain.cron.status import CronStatus as CronStatus
from asyncq.domain.cron.text import parse_crontab as parse_crontab
from asyncq.domain.cron.times import TimeDigest as TimeDigest
from asyncq.domain.errors import AccessDenied as AccessDenied
from asyncq.domain.errors import AsyncqError as AsyncqError
from asyncq.domain.errors import ClaimLost as ClaimLost
from asyncq.domain.errors import ConfigurationError as ConfigurationError
from asyncq.domain.errors import CronItemConflict as CronItemConflict
from asyncq.domain.errors import CronItemNotFound as CronItemNotFound
from asyncq.domain.errors import CrontabProblem as CrontabProblem
from asyncq.domain.errors import Discard as Discard
from asyncq.domain.errors import DuplicateJob as DuplicateJob
from asyncq.domain.errors import InvalidCrontab as InvalidCrontab
from asyncq.domain.errors import InvalidJob as InvalidJob
from asyncq.domain.errors import JobNotFound as JobNotFound
from asyncq.domain.errors import PoolExhausted as PoolExhausted
from asyncq.domain.errors import RetryAfter as RetryAfter
from asyncq.domain.errors import SchemaError as SchemaError
from asyncq.domain.errors import SchemaMissing as SchemaMissing
from asyncq.domain.errors import SchemaTooNew as SchemaTooNew
from asyncq.domain.errors import Snooze as Snooze
from asyncq.domain.errors import StoreError as StoreError
from asyncq.domain.errors import StoreUnavailable as StoreUnavailable
from asyncq.domain.errors import TaskError as TaskError
from asyncq.domain.errors import TransactionUnusable as TransactionUnusable
from asyncq.domain.errors import UnknownTask as UnknownTask
from asyncq.domain.errors import UnsupportedServer as UnsupportedServer
from asyncq.domain.events import CommitUncertain as CommitUncertain
from asyncq.domain.events import CronAdded as CronAdded
from asyncq.domain.events import CronBackfilled as CronBackfilled
from asyncq.domain.events import CronClockJumped as CronClockJumped
from asyncq.domain.events import CronFailed as CronFailed
from asyncq.domain.events import CronItemFailed as CronItemFailed
from asyncq.domain.events import CronItemRefused as CronItemRefused
from asyncq.domain.events import CronItemsChanged as CronItemsChanged
from asyncq.domain.events import CronItemShadowed as CronItemShadowed
from asyncq.domain.events import CronStarted as CronStarted
from asyncq.domain.events import ErrorIgnored as ErrorIgnored
from asyncq.domain.events import Event as Event
from asyncq.domain.events import FetchFailed as FetchFailed
from asyncq.domain.events import GraceExceeded as GraceExceeded
from asyncq.domain.events import HandlerStuck as HandlerStuck
from asyncq.domain.events import HeartbeatFailed as HeartbeatFailed
from asyncq.domain.events import JobCancelled as JobCancelled
from asyncq.domain.events import JobCompleted as JobCompleted
from asyncq.domain.events import JobDiscarded as JobDiscarded
from asyncq.domain.events import JobEvent as JobEvent
from asyncq.domain.events import JobInterrupted as JobInterrupted
from asyncq.domain.events import JobLost as JobLost
from asyncq.domain.events import JobRetried as JobRetried
from asyncq.domain.events import JobsFetched as JobsFetched
from asyncq.domain.events import JobSnoozed as JobSnoozed
from asyncq.domain.events import JobsPruned as JobsPruned
from asyncq.domain.events import JobsRescued as JobsRescued
from asyncq.domain.events import JobsReturned as JobsReturned
from asyncq.domain.events import JobStarted as JobStarted
from asyncq.domain.events import LeaseInDoubt as LeaseInDoubt
from asyncq.domain.events import LeaseOnly as LeaseOnly
from asyncq.domain.events import ListenConnected as ListenConnected
from asyncq.domain.events import ListenLost as ListenLost
from asyncq.domain.events import LoopBlocked as LoopBlocked
from asyncq.domain.events import MaintenanceFailed as MaintenanceFailed
from asyncq.domain.events import Observer as Observer
from asyncq.domain.events import ObserverFailed as ObserverFailed
from asyncq.domain.events import PartRecovered as PartRecovered
from asyncq.domain.events import PollingOnly as PollingOnly
from asyncq.domain.events import ResultIgnored as ResultIgnored
from asyncq.domain.events import SettleFailed as SettleFailed
from asyncq.domain.events import SettlementsAbandoned as SettlementsAbandoned
from asyncq.domain.events import TasksLeftBehind as TasksLeftBehind
from asyncq.domain.events import TooManyStuck as TooManyStuck
from asyncq.domain.events import TransactionAborted as TransactionAborted
from asyncq.domain.events import TransactionOpen as TransactionOpen
from asyncq.domain.events import TransactionsEnded as TransactionsEnded
from asyncq.domain.events import UnknownCronTasks as UnknownCronTasks
from asyncq.domain.events import UnknownTasks as UnknownTasks
from asyncq.domain.events import WorkerCrashed as WorkerCrashed
from asyncq.domain.events import WorkerLost as WorkerLost
from asyncq.domain.events import WorkerStarted as WorkerStarted
from asyncq.domain.events import WorkerStopped as WorkerStopped
from asyncq.domain.events import WorkerStopping as WorkerStopping
from asyncq.domain.events import observer as observer
from asyncq.domain.job import Added as Added
from asyncq.domain.job import Job as Job
from asyncq.domain.job import JobKeyMode as JobKeyMode
from asyncq.domain.job import JobOptions as JobOptions
from asyncq.domain.job import JobSpec as JobSpec
from asyncq.domain.retry import ConstantRetry as ConstantRetry
from asyncq.domain.retry import ExponentialRetry as ExponentialRetry
from asyncq.domain.retry import FunctionRetry as FunctionRetry
from asyncq.domain.retry import LinearRetry as LinearRetry
from asyncq.domain.retry import RetryPolicy as RetryPolicy
from asyncq.domain.retry import TableRetry as TableRetry
from asyncq.domain.states import JobState as JobState
from asyncq.domain.task import Task as Task
from asyncq.domain.task import task as task
from asyncq.domain.unique import OnConflict as OnConflict
from asyncq.domain.unique import UniquePolicy as UniquePolicy
from asyncq.engine.run.context import JobContext as JobContext
from asyncq.worker import Worker as Worker

# `from asyncq import *` takes these. Type checkers must not see it, because they could not read it.
globals()["__all__"] = sorted(
    name for name, thing in globals().items() if not name.startswith("_") and not isinstance(thing, _ModuleType)
)

# They are looked up, printed and pickled by the names that users write.
for _name in globals()["__all__"]:
    if not _name.isupper():
        globals()[_name].__module__ = __name__
