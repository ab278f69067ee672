"""`JobsContext`: gives a handler the jobs that were collected for its call, and the actions of the call."""

from collections.abc import Sequence
from typing import Any, ClassVar

from asyncq.domain.around import claimed_job
from asyncq.domain.errors import TaskError
from asyncq.domain.job import Claim, Job
from asyncq.domain.task import Registry
from asyncq.engine.run.handler_context import HandlerContext
from asyncq.engine.run.time_limit import TimeLimit
from asyncq.engine.run.transactions import HandlerResources


class JobsContext(HandlerContext):
    """Information about the jobs of one call of a handler with `collect`, and actions for it.

    Attributes:
        cancelled: Set when the worker stops, all jobs were cancelled, or the soft time limit is over. The handler
            should end soon, or it is cancelled. `jobs.cancelled.is_set()` works in threads too.
    """

    __slots__ = ("_claims", "_task", "_worker_id")
    of_many: ClassVar[bool] = True

    def __init__(
        self,
        claims: Sequence[Claim],
        task: str,
        worker_id: int,
        registry: Registry,
        resources: HandlerResources,
        *,
        limit: TimeLimit | None = None,
    ) -> None:
        super().__init__(registry, resources, None, limit=limit)
        self._claims = claims
        self._task = task
        self._worker_id = worker_id

    @property
    def jobs(self) -> list[Job]:
        """The jobs as they were when they were claimed, in the order of the payloads."""
        return [claimed_job(claim, self._task, self._worker_id) for claim in self._claims]

    def step(self, *args: Any, **kwargs: Any) -> None:  # noqa: ARG002 - whatever they are
        """Refuse the call: a step belongs to one job.

        Args:
            *args: Those of `JobContext.step`.
            **kwargs: Likewise.

        Raises:
            TaskError: Always.
        """
        raise TaskError(f"task {self._task!r} collects jobs, and a step belongs to one job: leave out collect=")

    tx_step = step
