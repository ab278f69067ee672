"""The `@task` decorator, `Task`, and the registry of a worker or client."""

from __future__ import annotations

import difflib
import functools
import inspect
import pickle
import sys
from collections.abc import Callable, Coroutine, Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Concatenate, Generic, Literal, ParamSpec, Protocol, TypeVar, get_args, overload

import msgspec

from asyncq.domain.address import address_of
from asyncq.domain.around import Middleware, check_middleware
from asyncq.domain.cron.text import Recurrence, items_of_task, several
from asyncq.domain.declaration import check_keys_are_clear, declaration_of
from asyncq.domain.errors import ConfigurationError, InvalidCrontab, InvalidJob, TaskError, UnknownTask
from asyncq.domain.events import JobDiscarded
from asyncq.domain.hints import ADDING, TASK_OPTIONS, hint
from asyncq.domain.job import JobSpec, ResultT_co
from asyncq.domain.limit import Limit, Queue, Rate, TaskLimit, check_by, limit_of
from asyncq.domain.many import Collect, check_collect, check_items
from asyncq.domain.options import switch
from asyncq.domain.payload import LARGEST_PAYLOAD
from asyncq.domain.result import Returns
from asyncq.domain.retry import Retry, RetryPolicy, as_policy
from asyncq.domain.signature import Context, Signature, call_of, innermost
from asyncq.domain.time_limit import Duration, Keep, Timeout, as_keep_s, as_timeout
from asyncq.domain.unique import UniquePolicy

P = ParamSpec("P")
PayloadT = TypeVar("PayloadT")
ContraT = TypeVar("ContraT", contravariant=True)
ResultT = TypeVar("ResultT")
CoT = TypeVar("CoT", covariant=True)
ContextT = TypeVar("ContextT", bound=Context)

Isolation = Literal["read_committed", "repeatable_read", "serializable"]


class Takes(Protocol[ContraT, CoT]):
    """A task whose jobs have one payload of a type; `add_job` checks its second argument against it."""

    @property
    def name(self) -> str: ...

    def job(self, payload: ContraT, /) -> JobSpec[CoT]: ...


class TakesNothing(Protocol[CoT]):
    """A task whose jobs need no payload."""

    @property
    def name(self) -> str: ...

    def job(self) -> JobSpec[CoT]: ...


class Task(Generic[P, ResultT_co]):
    """A named handler with the defaults of its jobs; the result of `@task`.

    Calling it calls the handler, so that a task is tested like a function. Other libraries treat it as that function:
    it has its name, docstring, signature and coroutine mark. It is pickled by reference, like a function.

    Attributes:
        name: The identifier in the database.
        is_named: Whether the name was given, and is not that of the function.
        handler: The decorated function.
        signature: How the handler is called.
        retry: Its retry policy.
        on_discarded: The function that is called when a job of the task is discarded.
        cron: The schedule by which workers add jobs of the task.
        cron_items: The recurring jobs of that schedule.
        isolation: The level of the transaction that also settles the job; None if there is no such transaction.
        middleware: The functions around the runs of its jobs.
        timeout: The time limits of one attempt of its jobs; None without any.
        address: Where another process finds the handler, which runs there; None if it runs in this process.
        keep_s: For how many seconds its jobs are kept after their end, 0 for not at all; None: as the worker says.
        keeps_payload: Whether they are kept with their payload.
        items: Whether its handler returns an outcome for each item of the payload.
        collect: How its jobs are collected for one call of the handler; None if each has its own.
        limit: How many of its jobs may run at once or start in a time, over all workers; None without a limit.
        needs_row: Whether its jobs are never claimed in a batch, because its handlers complete them in transactions.
    """

    def __init__(
        self,
        handler: Callable[..., Any],
        *,
        name: str | None = None,
        queue: str | None = None,
        max_attempts: int | None = None,
        priority: int | None = None,
        flags: Iterable[str] | None = None,
        unique: UniquePolicy | Mapping[str, Any] | None = None,
        singleton: bool = False,
        retry: Retry | None = None,
        on_discarded: Callable[[JobDiscarded], Any] | None = None,
        cron: Recurrence | Iterable[Recurrence] | None = None,
        transactional: bool = False,
        isolation: Isolation | None = None,
        completes: bool = False,
        middleware: Iterable[Middleware] = (),
        timeout: Timeout | Duration | None = None,
        expires: Duration | None = None,
        deadline: Duration | None = None,
        run_in: Literal["process"] | None = None,
        keep: Keep | None = None,
        keep_payload: bool = True,
        items: bool = False,
        collect: Collect | None = None,
        concurrency: int | Limit | None = None,
        rate: Rate | None = None,
        fair: str | None = None,
    ) -> None:
        if isinstance(handler, Task):
            raise TaskError(f"{handler!r} is already a task: @task is written once")
        self.name: str = _name_of(handler) if name is None else name
        self.is_named = name is not None
        self.handler = handler
        self.signature = Signature(handler, self.name, collects=collect is not None, items=items)
        self.address = address_of(handler, self.signature, run_in, self.name)
        for option, limit in {"expires": expires, "deadline": deadline}.items():
            if isinstance(limit, datetime):
                raise TaskError(f"task {self.name!r}: {option} must be a duration: its jobs are added one by one")
        try:
            self.retry: RetryPolicy = as_policy(retry)
            self.keep_s: float | None = None if keep is None else as_keep_s(keep)
            returns = Returns(self.signature, is_kept=bool(self.keep_s))
            self._defaults: JobSpec[Any] = JobSpec(task=self.name, returns=returns).with_options(
                queue=queue,
                max_attempts=max_attempts,
                priority=priority,
                flags=flags,
                unique=unique,
                singleton=singleton,
                expires=expires,
                deadline=deadline,
            )
            self.middleware = check_middleware(middleware)
            self.timeout: Timeout | None = None if timeout is None else as_timeout(timeout)
            self.keeps_payload = switch("keep_payload", keep_payload)
            self.limit: TaskLimit | None = limit_of(concurrency, rate, fair)
            check_by(self.limit, self.signature, queue)
            self.cron: tuple[Recurrence, ...] = several(cron)
            self.cron_items = items_of_task(self, self.cron)
        except (InvalidJob, ConfigurationError) as error:
            raise TaskError(f"task {self.name!r}: {error}") from error
        if on_discarded is not None and not callable(on_discarded):
            raise TaskError(f"task {self.name!r}: on_discarded must be a function, got {on_discarded!r}")
        self.on_discarded = on_discarded
        self.isolation: Isolation | None = self._isolation(isolation, transactional=transactional)
        self._check_timeout()
        others = {"transactional": transactional, "items": items, "completes": completes, "run_in": run_in}
        self.collect = check_collect(collect, self._defaults, self.signature, [name for name in others if others[name]])
        self.items = check_items(items, self.name, self.signature, completes=completes, run_in=run_in)
        self.needs_row = self._completes(completes) or self.isolation is not None
        self._origin: Task[P, ResultT_co] | None = None  # the task of which this one is a renamed copy
        self._look_like(handler)

    def _look_like(self, handler: Callable[..., Any]) -> None:
        """Set the attributes by which other libraries recognise a function."""
        function = innermost(handler)
        self.__name__: str = type(function).__name__
        self.__qualname__: str = type(function).__qualname__
        # Other attributes of the function are not copied, because they could overwrite attributes of Task.
        functools.update_wrapper(self, function, updated=())
        self.__wrapped__ = handler
        if not self.signature.is_async:
            return
        if sys.version_info >= (3, 12):
            inspect.markcoroutinefunction(self)
        else:
            # Python 3.11 has no mark: it reads the code of any object with the attributes of a function.
            call = call_of(handler)
            self.__code__, self.__kwdefaults__ = call.__code__, call.__kwdefaults__
            self.__defaults__ = call.__defaults__

    def _isolation(self, given: Any, *, transactional: Any) -> Isolation | None:
        """The isolation level of its transactions; None without one. Wrong options are refused here, at import."""
        levels: tuple[Isolation, ...] = get_args(Isolation)
        if not isinstance(transactional, bool):
            fault = f"transactional must be True or False, got {transactional!r}"
        elif not transactional and given is not None:
            fault = "isolation is the level of the task's transaction: it needs transactional=True"
        elif given is not None and given not in levels:
            fault = f"isolation {given!r} is unknown, expected one of {', '.join(map(repr, levels))}"
        elif transactional and not self.signature.is_async:
            fault = "a transactional handler is a coroutine function: a thread cannot use the worker's connection"
        elif transactional and not self.signature.takes_context:
            fault = "a transactional handler needs a parameter for the context, which has its transaction"
        else:
            return (given or levels[0]) if transactional else None
        raise TaskError(f"task {self.name!r}: {fault}")

    def _completes(self, given: Any) -> bool:
        """Whether its handlers complete their jobs; wrong options are refused here, at import."""
        if not isinstance(given, bool):
            fault = f"completes must be True or False, got {given!r}"
        elif given and self.isolation is not None:
            fault = "a transactional handler completes its job by its return: it needs no completes=True"
        elif given and not self.signature.takes_context:
            fault = "completes=True is for handlers that call ctx.complete: they need a parameter for the context"
        else:
            return given
        raise TaskError(f"task {self.name!r}: {fault}")

    def _check_timeout(self) -> None:
        """Refuse limits without an effect here, at import."""
        if self.timeout is None or self.signature.takes_context:
            return
        if self.address is not None and self.timeout.soft_s is not None:
            fault = "the soft timeout sets ctx.cancelled, which a handler in another process lacks: give it a hard one"
        elif self.address is not None:
            return
        elif not self.signature.is_async:
            fault = "a plain function runs in a thread, which cannot be cancelled"
            fault += ": the handler needs a parameter for the context"
        elif self.timeout.soft_s is not None:
            fault = "the soft timeout sets ctx.cancelled: the handler needs a parameter for the context"
        else:
            return
        raise TaskError(f"task {self.name!r}: {fault}")

    @property
    def queue(self) -> str | None:
        """The queue of its jobs; None if they have none of their own."""
        return self._defaults.queue

    def job(self, *args: P.args, **kwargs: P.kwargs) -> JobSpec[ResultT_co]:
        """Make a job of this task for `add_job` or `add_jobs`.

        Args:
            *args: The handler's parameters, without the context.
            **kwargs: The handler's parameters by name.

        Returns:
            The spec, with the task's defaults; `with_options` changes them.

        Raises:
            InvalidJob: The arguments do not fit the handler.
        """
        # The limit of the size belongs to the client that adds the job.
        return self.spec(self.signature.encode_call(args, kwargs, LARGEST_PAYLOAD))

    def spec(self, payload: str) -> JobSpec[ResultT_co]:
        """Make a job of this task with a payload that is already JSON text.

        Args:
            payload: The text; it is not compared with the handler's types.

        Returns:
            The spec, with the task's defaults.
        """
        return msgspec.structs.replace(self._defaults, payload=payload)

    def renamed(self, name: str) -> Task[P, ResultT_co]:
        """Copy the task with another name.

        Args:
            name: The identifier in the database, at most 128 characters.

        Returns:
            The copy; the task itself if it already has the name.

        Raises:
            TaskError: The name breaks a rule.
        """
        if name == self.name:
            return self
        other = self.__copy__()
        other._origin = self._origin or self
        other.name, other.is_named = name, True
        other.signature = Signature(self.handler, name, collects=self.collect is not None, items=self.items)
        try:
            returns = Returns(other.signature, is_kept=bool(self.keep_s))
            other._defaults = msgspec.structs.replace(self._defaults, task=name, returns=returns).with_options()
            other.cron_items = items_of_task(other, self.cron)
        except (InvalidJob, InvalidCrontab) as error:
            raise TaskError(f"task {name!r}: {error}") from error
        return other

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.handler(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Task {self.name}>"

    def __copy__(self) -> Task[P, ResultT_co]:
        other = object.__new__(type(self))
        vars(other).update(vars(self))
        return other

    def __deepcopy__(self, _: Any) -> Task[P, ResultT_co]:
        return self

    def __reduce__(self) -> str | tuple[Any, ...]:
        found: Any = sys.modules.get(self.__module__)
        for part in self.__qualname__.split("."):
            found = getattr(found, part, None)
        if found is self:
            return self.__qualname__
        if found is not None and found is self._origin:
            return Task.renamed, (found, self.name)
        path = f"{self.__module__}.{self.__qualname__}"
        raise pickle.PicklingError(
            f"{self!r} cannot be pickled: it is looked up as {path}, which is another object; decorate a function of a "
            "module with @task"
        )

    if not TYPE_CHECKING:  # Type checkers refuse every name that does not exist.

        def __class_getitem__(cls, given: Any) -> Any:
            # `Task[...]` and `Task[[Email]]` say nothing of the result: it may have any type.
            is_whole = isinstance(given, tuple) and len(given) == 2
            return super().__class_getitem__(given if is_whole else (given, Any))

        def __getattr__(self, name: str) -> Any:
            # Called only for names that do not exist, also while a copy has no attributes yet.
            said = f"a Task has no attribute {name!r}"
            if name in ADDING:
                said += ": a client adds its jobs, `await client.add_job(task, payload)`, a handler `ctx.add_job(...)`"
            raise AttributeError(said, name=name, obj=self)


class _Anything:
    """A class that no annotation names: only a parameter that takes anything (Any, object) accepts it.

    Jobs of such a handler are not checked by type; otherwise its payload would be mistaken for the context.
    """


Answer = Coroutine[Any, Any, ResultT]


class _Decorator(Protocol):
    @overload
    def __call__(self, handler: Callable[Concatenate[_Anything, P], Answer[ResultT]], /) -> Task[..., ResultT]: ...
    @overload
    def __call__(self, handler: Callable[Concatenate[_Anything, P], ResultT], /) -> Task[..., ResultT]: ...
    @overload
    def __call__(self, handler: Callable[[PayloadT, _Anything], Answer[ResultT]], /) -> Task[..., ResultT]: ...
    @overload
    def __call__(self, handler: Callable[[PayloadT, _Anything], ResultT], /) -> Task[..., ResultT]: ...
    @overload
    def __call__(self, handler: Callable[Concatenate[ContextT, P], Answer[ResultT]], /) -> Task[P, ResultT]: ...
    @overload
    def __call__(self, handler: Callable[Concatenate[ContextT, P], ResultT], /) -> Task[P, ResultT]: ...
    @overload
    def __call__(self, handler: Callable[[PayloadT, ContextT], Answer[ResultT]], /) -> Task[[PayloadT], ResultT]: ...
    @overload
    def __call__(self, handler: Callable[[PayloadT, ContextT], ResultT], /) -> Task[[PayloadT], ResultT]: ...
    @overload
    def __call__(self, handler: Callable[P, Answer[ResultT]], /) -> Task[P, ResultT]: ...
    @overload
    def __call__(self, handler: Callable[P, ResultT], /) -> Task[P, ResultT]: ...


class _ItemsDecorator(Protocol):
    @overload
    def __call__(self, handler: Callable[[list[PayloadT]], Any], /) -> Task[[list[PayloadT]], None]: ...
    @overload
    def __call__(self, handler: Callable[[list[PayloadT], ContextT], Any], /) -> Task[[list[PayloadT]], None]: ...
    @overload
    def __call__(self, handler: Callable[[ContextT, list[PayloadT]], Any], /) -> Task[[list[PayloadT]], None]: ...


class _CollectingDecorator(Protocol):
    @overload
    def __call__(self, handler: Callable[[list[PayloadT]], Any], /) -> Task[[PayloadT]]: ...
    @overload
    def __call__(self, handler: Callable[[list[PayloadT], ContextT], Any], /) -> Task[[PayloadT]]: ...
    @overload
    def __call__(self, handler: Callable[[ContextT, list[PayloadT]], Any], /) -> Task[[PayloadT]]: ...


@overload
def task(handler: Callable[Concatenate[_Anything, P], Answer[ResultT]], /) -> Task[..., ResultT]: ...
@overload
def task(handler: Callable[Concatenate[_Anything, P], ResultT], /) -> Task[..., ResultT]: ...
@overload
def task(handler: Callable[[PayloadT, _Anything], Answer[ResultT]], /) -> Task[..., ResultT]: ...
@overload
def task(handler: Callable[[PayloadT, _Anything], ResultT], /) -> Task[..., ResultT]: ...
@overload
def task(handler: Callable[Concatenate[ContextT, P], Answer[ResultT]], /) -> Task[P, ResultT]: ...
@overload
def task(handler: Callable[Concatenate[ContextT, P], ResultT], /) -> Task[P, ResultT]: ...
@overload
def task(handler: Callable[[PayloadT, ContextT], Answer[ResultT]], /) -> Task[[PayloadT], ResultT]: ...
@overload
def task(handler: Callable[[PayloadT, ContextT], ResultT], /) -> Task[[PayloadT], ResultT]: ...
@overload
def task(handler: Callable[P, Answer[ResultT]], /) -> Task[P, ResultT]: ...
@overload
def task(handler: Callable[P, ResultT], /) -> Task[P, ResultT]: ...
@overload
def task(
    *,
    collect: Collect,
    name: str | None = None,
    max_attempts: int | None = None,
    priority: int | None = None,
    flags: Iterable[str] | None = None,
    unique: UniquePolicy | Mapping[str, Any] | None = None,
    singleton: bool = False,
    retry: Retry | None = None,
    on_discarded: Callable[[JobDiscarded], Any] | None = None,
    cron: Recurrence | Iterable[Recurrence] | None = None,
    middleware: Iterable[Middleware] = (),
    timeout: Timeout | Duration | None = None,
    expires: Duration | None = None,
    keep: Keep | None = None,
    keep_payload: bool = True,
    concurrency: int | Limit | None = None,
    rate: Rate | None = None,
    fair: str | None = None,
) -> _CollectingDecorator: ...
@overload
def task(
    *,
    items: Literal[True],
    name: str | None = None,
    queue: str | None = None,
    max_attempts: int | None = None,
    priority: int | None = None,
    flags: Iterable[str] | None = None,
    unique: UniquePolicy | Mapping[str, Any] | None = None,
    singleton: bool = False,
    retry: Retry | None = None,
    on_discarded: Callable[[JobDiscarded], Any] | None = None,
    cron: Recurrence | Iterable[Recurrence] | None = None,
    transactional: bool = False,
    isolation: Isolation | None = None,
    middleware: Iterable[Middleware] = (),
    timeout: Timeout | Duration | None = None,
    expires: Duration | None = None,
    deadline: Duration | None = None,
    keep: Keep | None = None,
    keep_payload: bool = True,
    concurrency: int | Limit | None = None,
    rate: Rate | None = None,
    fair: str | None = None,
) -> _ItemsDecorator: ...
@overload
def task(
    *,
    name: str | None = None,
    queue: str | None = None,
    max_attempts: int | None = None,
    priority: int | None = None,
    flags: Iterable[str] | None = None,
    unique: UniquePolicy | Mapping[str, Any] | None = None,
    singleton: bool = False,
    retry: Retry | None = None,
    on_discarded: Callable[[JobDiscarded], Any] | None = None,
    cron: Recurrence | Iterable[Recurrence] | None = None,
    transactional: bool = False,
    isolation: Isolation | None = None,
    completes: bool = False,
    middleware: Iterable[Middleware] = (),
    timeout: Timeout | Duration | None = None,
    expires: Duration | None = None,
    deadline: Duration | None = None,
    run_in: Literal["process"] | None = None,
    keep: Keep | None = None,
    keep_payload: bool = True,
    items: Literal[False] = False,
    concurrency: int | Limit | None = None,
    rate: Rate | None = None,
    fair: str | None = None,
) -> _Decorator: ...
def task(handler: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a function a task.

    Args:
        handler: The function, when used without parentheses: a coroutine function, or a plain one, which runs in a
            thread. Its parameters are the fields of the payload. A single parameter that is not a scalar is the payload
            itself. A parameter annotated `JobContext` receives the context. Type checkers need the context first, or
            last after one payload: `(ctx, day, dry_run)`, `(email, ctx)`. A parameter with `use(...)` as its default
            takes a resource.
        name: The identifier in the database, at most 128 characters; the function's name by default.
        queue: The named queue that runs its jobs one after the other; none by default.
        max_attempts: The number of attempts in all; 25 by default.
        priority: Lower first; 0 by default.
        flags: Names that a worker may forbid.
        unique: Which of its jobs conflict, and what an add does then: a `UniquePolicy`, or an object of its members;
            none by default.
        singleton: Whether at most one of its jobs waits or runs, or one for each `subject=` of the adds. A further add
            is dropped. False by default.
        retry: The wait after a failed attempt; `exp(min(attempt, 10))` seconds by default. A policy, a list of delays
            (timedeltas or seconds; the last one repeats), or a function of the attempt.
        on_discarded: A function that is called with the `JobDiscarded` event when a job is discarded; may be async.
        cron: When workers add a job of the task. A cron expression, which may be followed by options and a payload as
            in a crontab (`0 8 * * * ?tz=Europe/Berlin&fill=1d {dry_run: true}`). Or a function of a `TimeDigest`. Or a
            list of these, each but one with an `id`.
        transactional: Whether the work of a handler over its context (`connection`, `query`, `add_job`) is one
            transaction, which also settles the job. It is committed when the handler returns, and rolled back when it
            raises, so that its effects in the database happen exactly once. False by default; it costs a connection for
            the whole run.
        isolation: The isolation level of that transaction: `"read_committed"` by default, `"repeatable_read"`,
            `"serializable"`.
        completes: Whether its handlers call `ctx.complete`. Without it the call costs two more round trips for a job in
            a batch, and a transaction at REPEATABLE READ or SERIALIZABLE must start again after it. False by default;
            True keeps its jobs out of batches, so that claiming them costs more.
        middleware: Coroutine functions around the runs of its jobs, inside of those of the worker; none by default.
        timeout: The time limit of one attempt: seconds, a timedelta, text such as `"30 s"`, or
            `Timeout(soft="20 s", hard="30 s")`. None by default. In a thread it only sets `ctx.cancelled`.
        expires: The time from its add within which the first run of a job has to start, else it ends as cancelled. None
            by default.
        deadline: The time from its add within which all attempts of a job have to end. None by default.
        run_in: `"process"` runs a plain function in another process, so that it may compute without delaying others,
            and can be killed. It has to be a function of a module that can be imported, without context and resources.
            By default a plain function runs in a thread.
        keep: How long its jobs are kept after their end, with payload and result: seconds, a timedelta, text such as
            `"7 days"`; False for not at all. By default as the worker says, which keeps none.
        keep_payload: Whether they are kept with their payload; True by default.
        items: Whether the payload is a list, and the handler returns None, or a list of outcomes, one for each item. An
            exception says that its item failed. These items are the payload of the retry. False by default.
        collect: Runs several jobs in one call, as `Collect(max=100, within="2 s")`. The handler takes the list of their
            payloads, and returns None or a list of outcomes, one for each job. None by default.
        concurrency: How many of its jobs may run at once over all workers. A number, or a `Limit`, which may hold for
            each key in the payload: `Limit(3, by="tenant_id")`. No limit by default. A limit without a key counts
            all jobs of the task; those with a queue run one after the other beside.
        rate: How many of its jobs may start in a time over all workers: `Rate(100, per="1 min")`. Or how many of each
            key in the payload: `Rate(100, per="1 min", by="api_key")`. No limit by default.
        fair: The member of the payload whose values take turns, such as `"tenant_id"`: many jobs with one value do not
            delay those with another one. None by default.

    Returns:
        The task.

    Raises:
        TaskError: The handler cannot be served, or an option breaks a rule.
        TypeError: An option does not exist; the message suggests a similar one.
    """
    known = Task.__init__.__kwdefaults__ or {}
    if unknown := options.keys() - known:
        name = min(unknown)
        raise TypeError(f"@task has no option {name!r}{hint(name, known, TASK_OPTIONS)}")
    return functools.partial(Task, **options) if handler is None else Task(handler, **options)


def _name_of(handler: Any) -> str:
    """The name of a function, of the function of a partial, or of an object's class."""
    function = innermost(handler)
    name: str = getattr(function, "__name__", type(function).__name__)
    if name == "<lambda>":
        raise TaskError("a lambda has no name for a task: give it one, task(name=...)")
    return name


class Registry(dict[str, Task[...]]):
    """The tasks of a worker or a client, by name. With `encoded`, a codec encodes the payloads of their jobs.

    Attributes:
        declaration: The limits of the tasks, and of the queues that the list has too.

    Raises:
        TaskError: Two tasks share a name, an element is no task and no Queue, or the limits contradict each other.
    """

    def __init__(self, tasks: Iterable[Task[...] | Queue], *, encoded: bool = False) -> None:
        super().__init__()
        if isinstance(tasks, Task):
            raise TaskError(f"tasks must be a list, got {tasks!r} alone")
        if isinstance(tasks, str | bytes) or not isinstance(tasks, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TaskError(f"tasks must be a list of functions decorated with @task, got {tasks!r}")
        queues: list[Queue] = []
        for item in tasks:
            if isinstance(item, Queue):
                queues.append(item)
                continue
            if not isinstance(item, Task):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise TaskError(f"tasks must be decorated with @task, got {item!r}")
            known = self.setdefault(item.name, item)
            if known is not item:
                raise TaskError(
                    f"two tasks are called {item.name!r}: {_where(known)} and {_where(item)}; give one of them a name="
                )
        used = {item.queue for item in self.values() if item.queue is not None}
        self.declaration = declaration_of({name: item.limit for name, item in self.items()}, queues, used)
        if encoded:
            check_keys_are_clear(self.declaration)

    def find(self, name: str) -> Task[...]:
        """Find a task by its name, or raise UnknownTask with the most similar name."""
        if found := self.get(name):
            return found
        raise UnknownTask(name, next(iter(difflib.get_close_matches(name, self, n=1)), None))


def _where(item: Task[...]) -> str:
    return f"{item.__module__}.{getattr(item.handler, '__qualname__', item.handler)}"
