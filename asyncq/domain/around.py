"""What a program puts around its worker, its runs and its adds: the types, and the checks of the functions."""

import inspect
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol, cast

import msgspec

from asyncq.domain.errors import ConfigurationError
from asyncq.domain.job import Added, Claim, Job, JobSpec
from asyncq.domain.meta import read_meta
from asyncq.domain.signature import call_of
from asyncq.domain.states import JobState


class Carried(msgspec.Struct, frozen=True):
    """A context manager function to enter around a handler in its process, and the texts that it gets."""

    module: str
    name: str
    texts: dict[str, str]


class RunInfo:
    """The run that a middleware is called for.

    Attributes:
        task: The name of the task.
        attempt: The number of this attempt; the first is 1. Of the first job, if jobs were collected for the call.
        worker_id: The id of the worker.
        claims: The claims of its jobs: one, or those of all jobs that were collected for the call.
        lifespan: The value that the worker's lifespan yielded; None without one.
        carried: What `carry` was given.
    """

    __slots__ = ("attempt", "carried", "claims", "lifespan", "task", "worker_id")

    def __init__(
        self, claims: Sequence[Claim], task: str, worker_id: int, lifespan: Any, carried: list[Carried]
    ) -> None:
        self.carried = carried
        self.claims = claims
        self.worker_id = worker_id
        self.task = task
        self.attempt = claims[0].attempts + 1
        self.lifespan = lifespan

    @property
    def job(self) -> Job:
        """The job as it was when it was claimed; the first one, if jobs were collected for the call."""
        return claimed_job(self.claims[0], self.task, self.worker_id)

    @property
    def jobs(self) -> list[Job]:
        """The jobs of the call as they were when they were claimed: one, or those that were collected for it."""
        return [claimed_job(claim, self.task, self.worker_id) for claim in self.claims]

    def carry(self, around: Callable[[dict[str, str]], AbstractContextManager[Any]], texts: dict[str, str]) -> None:
        """Enter a context manager around the handler in its process, if it runs in one (`run_in="process"`).

        Args:
            around: A function at the top level of a module, which the process imports. It gets the texts.
            texts: Are sent to the process.
        """
        self.carried.append(Carried(module=around.__module__, name=around.__name__, texts=texts))

    def __repr__(self) -> str:
        return f"<RunInfo of job {self.claims[0].id}, {self.task}, attempt {self.attempt}>"


class Call(Protocol):
    """Calls the handler of a run, and everything between; returns what the handler returns."""

    def __call__(self) -> Awaitable[Any]: ...


class Middleware(Protocol):
    """A coroutine function around runs; what it returns or raises counts as that of the handler."""

    def __call__(self, run: RunInfo, call: Call, /) -> Awaitable[Any]: ...


class Add(Protocol):
    """Adds the jobs of a call, or those that replace them, and returns their results in the same order."""

    def __call__(self, specs: Sequence[JobSpec], /) -> Awaitable[list[Added]]: ...


class AddMiddleware(Protocol):
    """A coroutine function around adds, which may replace their jobs."""

    def __call__(self, specs: Sequence[JobSpec], add: Add, /) -> Awaitable[Any]: ...


class SyncAdd(Protocol):
    """Adds the jobs of a call of a `SyncClient`, or those that replace them, and returns their results."""

    def __call__(self, specs: Sequence[JobSpec], /) -> list[Added]: ...


class SyncAddMiddleware(Protocol):
    """A plain function around the adds of a `SyncClient`, which may replace their jobs."""

    def __call__(self, specs: Sequence[JobSpec], add: SyncAdd, /) -> Any: ...


class PassedOn:
    """The jobs that a middleware passes on. It may replace jobs, and neither leave one out nor add another one.

    Each job of a workflow stays in its place, because the others name it by that. `check` checks what is passed on.
    """

    def __init__(
        self,
        middleware: Callable[..., Any],
        specs: Sequence[JobSpec],
        check: Callable[[Sequence[JobSpec]], list[JobSpec]],
    ) -> None:
        self._name = name_of(middleware)
        self._specs = specs
        self._check = check
        self._found: list[Added] | None = None
        self._is_adding = False

    @contextmanager
    def adding(self, replaced: Sequence[JobSpec]) -> Generator[list[JobSpec]]:
        """Check the jobs that the block adds; ConfigurationError if one is missing, or if they were added before."""
        if self._is_adding or self._found is not None:
            raise ConfigurationError(f"middleware {self._name} added its jobs a second time")
        if len(replaced) != len(self._specs):
            said = f"middleware {self._name} passed on {len(replaced)} jobs of {len(self._specs)}"
            raise ConfigurationError(f"{said}: it may replace jobs, and neither leave one out nor add another one")
        checked = self._check(replaced)
        if any(_place(one) != _place(other) for one, other in zip(self._specs, checked, strict=True)):
            said = f"middleware {self._name} moved or replaced a job of a workflow, or changed for which it waits"
            raise ConfigurationError(f"{said}: it may copy each with other options, by with_options, in its place")
        self._is_adding = True
        try:
            yield checked
        finally:
            self._is_adding = False

    def keep(self, added: list[Added]) -> list[Added]:
        """Keep the results of the add, and return them."""
        self._found = added
        return added

    def results(self) -> list[Added]:
        """Return the results after the middleware has ended; ConfigurationError if it has not added its jobs."""
        if self._found is None:
            raise ConfigurationError(f"middleware {self._name} did not add its jobs: it has to call add(specs)")
        return self._found


async def added_within(
    middleware: AddMiddleware, specs: Sequence[JobSpec], inner: Add, check: Callable[[Sequence[JobSpec]], list[JobSpec]]
) -> list[Added]:
    """Call a middleware around an add; `check` checks the jobs that it passes on to `inner`."""
    passed_on = PassedOn(middleware, specs, check)

    async def add(replaced: Sequence[JobSpec]) -> list[Added]:
        with passed_on.adding(replaced) as checked:
            return passed_on.keep(await inner(checked))

    await middleware(specs, add)
    return passed_on.results()


def _place(spec: JobSpec) -> tuple[Any, ...] | None:
    """The place of a job in its workflow, with all by which the others and the server rely on it."""
    place = spec.returns.place
    return None if place is None else (place, spec.after, spec.takes, spec.takes_as)


def claimed_job(claim: Claim, task: str, worker_id: int) -> Job:
    """A job as it was when a worker claimed it."""
    return Job(
        id=claim.id,
        task=task,
        queue=claim.queue,
        payload=claim.payload,
        priority=claim.priority,
        run_at=claim.run_at,
        attempts=claim.attempts,
        max_attempts=claim.max_attempts,
        last_error=claim.last_error,
        created_at=claim.created_at,
        updated_at=claim.updated_at,
        key=claim.key,
        locked_at=None,
        locked_by=str(worker_id),
        revision=claim.revision,
        flags=tuple(sorted(msgspec.json.decode(claim.flags))) if claim.flags else (),
        meta=read_meta(claim.meta) if claim.meta else None,
        state=JobState.ACTIVE,
        interruptions=claim.interruptions,
    )


def name_of(function: Any) -> str:
    """The name of a function in messages; that of its class for another callable."""
    return getattr(function, "__qualname__", None) or type(function).__qualname__


def check_lifespan(lifespan: Any) -> Callable[..., Any] | None:
    """Check the lifespan of a worker; ConfigurationError unless it may be an async context manager function."""
    if lifespan is None:
        return None
    if not callable(lifespan):
        fault = f"got {lifespan!r}"
    elif inspect.isasyncgenfunction(call_of(lifespan)):
        fault = f"{name_of(lifespan)} is an async generator function: decorate it with @asynccontextmanager"
    elif _is_coroutine_function(lifespan):
        fault = f"{name_of(lifespan)} is a coroutine function: decorate it with @asynccontextmanager, and yield once"
    else:
        return lifespan
    raise ConfigurationError(f"lifespan must be an async context manager function that takes the worker: {fault}")


def check_middleware(given: Any) -> tuple[Callable[..., Any], ...]:
    """Check the middleware of a worker, a task or a client; ConfigurationError unless it is a list of functions."""
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise ConfigurationError(f"middleware must be a list of coroutine functions, got {given!r}")
    functions = tuple(cast("Iterable[Any]", given))
    for function in functions:
        if not callable(function) or not _is_coroutine_function(function):
            raise ConfigurationError(f"a middleware is a coroutine function of two arguments, got {function!r}")
        _check_arguments(function)
    return functions


def check_sync_middleware(given: Any) -> tuple[Callable[..., Any], ...]:
    """Check the middleware of a `SyncClient`; ConfigurationError unless it is a list of plain functions."""
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise ConfigurationError(f"middleware must be a list of functions, got {given!r}")
    functions = tuple(cast("Iterable[Any]", given))
    for function in functions:
        if not callable(function):
            raise ConfigurationError(f"a middleware is a function of two arguments, got {function!r}")
        if _is_coroutine_function(function):
            raise ConfigurationError(
                f"middleware {name_of(function)} is a coroutine function, and SyncClient has no event loop: write a "
                "plain function that returns add(specs)"
            )
        _check_arguments(function)
    return functions


def _check_arguments(function: Callable[..., Any]) -> None:
    try:
        inspect.signature(function).bind(None, None)
    except TypeError as error:
        said = f"a middleware is called with two arguments, which {name_of(function)} does not take: {error}"
        raise ConfigurationError(said) from error


def _is_coroutine_function(function: Any) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call_of(function))
