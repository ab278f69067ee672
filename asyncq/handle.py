"""`Handle`: an added job, whose progress and result can be read."""

from datetime import timedelta
from typing import Any, Generic, Protocol

from asyncq.domain.errors import ConfigurationError, JobNotFound, ResultUnavailable
from asyncq.domain.job import Added, Job, JobSpec, ResultT_co
from asyncq.domain.progress import Progress
from asyncq.domain.result import Ended, Returns, result_of


class Reader(Protocol):
    """The client that added a job."""

    async def get_job(self, job_id: int) -> Job: ...

    async def wait_for(self, job_id: int, *, timeout: timedelta | float | str | None = None) -> Ended: ...


class _Source:
    """What a handle needs beside the answer to the add."""

    __slots__ = ("is_kept", "reader", "returns")

    def __init__(self, reader: Reader, returns: Returns, *, is_kept: bool) -> None:
        self.reader = reader
        self.returns = returns
        self.is_kept = is_kept


class Handle(Added, Generic[ResultT_co], frozen=True, gc=True, dict=True):
    """An added job: the answer to the add, and the way to its progress and result.

    It is equal to an `Added` with the same fields, and encoded as one. A copy has these fields only.

    Attributes:
        id: The id of the job, as in `Added`.
        outcome: What the add did, as in `Added`.
        existing_id: The id of the earlier job, if one decided the outcome.
        existing_state: The state of that job.
    """

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Added) and _fields(self) == _fields(other)

    def __hash__(self) -> int:
        return hash(Added(*_fields(self)))

    async def progress(self) -> Progress | None:
        """Read the last report of `ctx.progress`.

        Returns:
            The report of the present run; None if the job has reported none in it, does not run, or has ended.

        Raises:
            ConfigurationError: The handle is a copy, or its client is not open.
            StoreError: The database cannot be used.

        If cancelled, nothing was changed: it only reads.
        """
        try:
            return (await self._source("progress").reader.get_job(self.id)).progress
        except JobNotFound:
            return None

    async def result(self, *, timeout: timedelta | float | str | None = None) -> ResultT_co:
        """Wait until the job has ended, and read what its handler returned.

        Args:
            timeout: How long to wait at most: seconds, a timedelta, or text such as `"30 s"`. None, the default, waits
                without a limit, also while the database cannot be reached.

        Returns:
            The result, read by the return annotation of the handler.

        Raises:
            JobFailedError: The job was discarded. While it may be retried, this call waits.
            JobCancelledError: The job was cancelled.
            ResultUnavailable: It has ended, and its result is not stored: `keep` is over, or it could not be stored.
            WaitTimeout: It has not ended in time; it goes on.
            ConfigurationError: The job was added without `keep`. Or a handler calls this, which would hold a slot of
                its worker while it waits.
            StoreError: The database refused.

        If cancelled, the job goes on.
        """
        source = self._source("result")
        if not source.is_kept:
            raise ConfigurationError(
                f"the result of job {self.id} is not kept: declare its task with keep, such as @task(keep='1 hour'), "
                "or add the job with keep='1 hour'; client.run(task.job(...)) adds it and waits at once"
            )
        try:
            ended = await source.reader.wait_for(self.id, timeout=timeout)
        except JobNotFound as error:
            raise ResultUnavailable(self.id, "it has ended, and nothing of it is kept any more") from error
        result: ResultT_co = result_of(ended, source.returns)
        return result

    def _source(self, name: str) -> _Source:
        source: _Source | None = vars(self).get("source")
        if source is None:
            raise ConfigurationError(
                f"handle.{name}() works on the handle that add_job returned, and this one is a copy of it"
            )
        return source


def handle_of(added: Added, reader: Reader, spec: JobSpec[Any]) -> Handle[Any]:
    """The handle of a job that was added with this spec."""
    handle: Handle[Any] = Handle(*_fields(added))
    is_kept = spec.returns.is_kept if spec.keep is None else spec.keep > 0
    vars(handle)["source"] = _Source(reader, spec.returns, is_kept=is_kept)
    return handle


def _fields(added: Added) -> tuple[Any, ...]:
    return added.id, added.outcome, added.existing_id, added.existing_state
