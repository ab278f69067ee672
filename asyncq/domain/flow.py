"""Workflows: jobs that wait for each other and take each other's results, to be added in one call."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Generic, TypeVar, Unpack, cast, overload

import msgspec

from asyncq.domain.after import AFTER_CODE, MOST_AFTER
from asyncq.domain.after import Takes as Taking
from asyncq.domain.errors import InvalidJob
from asyncq.domain.job import JobOptions, JobSpec, ResultT_co
from asyncq.domain.payload import encode
from asyncq.domain.task import Takes, Task

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")
F = TypeVar("F")

# Group cannot be a parameter of its own results: a handler takes them as a list.
MemberT = TypeVar("MemberT")


class Flow(Generic[ResultT_co]):
    """Jobs that wait for each other, with a last one: made with `chain` and `group`. `add_workflow` adds it.

    It is not changed by its methods, and may be part of several others.

    Args:
        spec: The last job.
        before: The workflows for whose last jobs it waits; none by default.
    """

    def __init__(self, spec: JobSpec[ResultT_co], before: tuple[Flow[Any], ...] = ()) -> None:
        self._spec = spec
        self._before = before

    def then(self, task: Takes[ResultT_co, B], /, **options: Unpack[JobOptions]) -> Flow[B]:
        """Let a job follow, which takes the result of the last one as its payload.

        Args:
            task: Its task, which needs no other argument.
            **options: See `JobOptions`, without `after`; `if_failed` says what happens if the last one fails.

        Returns:
            The longer workflow.

        Raises:
            InvalidJob: An option breaks a rule.
            TaskError: The task takes no argument, or needs more than one.
        """
        return _following(task, (self,), "result", options)

    def __repr__(self) -> str:
        return f"<Flow to {self._spec.task}>"


class Group(Generic[MemberT]):
    """Jobs or workflows that run beside each other; `then` makes a workflow of it.

    Args:
        members: Jobs, made with `task.job(...)`, and workflows.
    """

    def __init__(self, members: Iterable[JobSpec[MemberT] | Flow[MemberT]]) -> None:
        self._members: tuple[Flow[Any], ...] = tuple(_flow(member, "a group") for member in members)
        if len(self._members) > MOST_AFTER:
            raise _too_many("a group", len(self._members))

    def then(self, task: Takes[list[MemberT], B], /, **options: Unpack[JobOptions]) -> Flow[B]:
        """Let a job follow, which takes the list of all results as its payload, in the order of the group.

        Args:
            task: Its task, which needs no other argument.
            **options: See `JobOptions`, without `after`. With `if_failed="run"` a job that failed is None in the list.

        Returns:
            The workflow. If the group is empty, its one job takes an empty list.

        Raises:
            InvalidJob: An option breaks a rule.
            TaskError: The task takes no argument, or needs more than one.
        """
        return _following(task, self._members, "results", options)

    def __repr__(self) -> str:
        return f"<Group of {len(self._members)}>"


@overload
def chain(first: JobSpec[A] | Flow[A], second: Takes[A, B], /) -> Flow[B]: ...
@overload
def chain(first: JobSpec[A] | Flow[A], second: Takes[A, B], third: Takes[B, C], /) -> Flow[C]: ...
@overload
def chain(first: JobSpec[A] | Flow[A], second: Takes[A, B], third: Takes[B, C], fourth: Takes[C, D], /) -> Flow[D]: ...
@overload
def chain(
    first: JobSpec[A] | Flow[A],
    second: Takes[A, B],
    third: Takes[B, C],
    fourth: Takes[C, D],
    fifth: Takes[D, E],
    /,
) -> Flow[E]: ...
@overload
def chain(
    first: JobSpec[A] | Flow[A],
    second: Takes[A, B],
    third: Takes[B, C],
    fourth: Takes[C, D],
    fifth: Takes[D, E],
    sixth: Takes[E, F],
    /,
) -> Flow[F]: ...
@overload
def chain(first: JobSpec[A] | Flow[A], /) -> Flow[A]: ...
def chain(first: Any, /, *tasks: Any) -> Flow[Any]:
    """Make a workflow of jobs that run one after the other: each takes the result of the one before.

    Args:
        first: The first job, made with `task.job(...)`, or a workflow.
        *tasks: The tasks of the others. `Flow.then` adds more, and takes options.

    Returns:
        The workflow.

    Raises:
        InvalidJob: `first` is neither, or another argument is no task.
        TaskError: A task takes no argument, or needs more than one.
    """
    flow = _flow(first, "a chain")
    for task in tasks:
        flow = flow.then(task)
    return flow


def group(members: Iterable[JobSpec[MemberT] | Flow[MemberT]], /) -> Group[MemberT]:
    """Make a group of jobs that run beside each other.

    Args:
        members: Jobs, made with `task.job(...)`, and workflows; at most 100,000.

    Returns:
        The group; its `then` says which job takes the results.

    Raises:
        InvalidJob: A member is neither, or there are too many.
    """
    return Group(members)


def jobs_of(flow: Any) -> list[JobSpec[Any]]:
    """The jobs of a workflow: each follows those for which it waits, and names them by their places.

    InvalidJob if it is no workflow, or has too many jobs.
    """
    if not isinstance(flow, Flow):
        how = "; a group needs a job that follows: group(...).then(task)" if isinstance(flow, Group) else ""
        raise _invalid(f"a workflow is made with chain(...) or group(...).then(...), got {flow!r}{how}")
    places: dict[int, int] = {}
    specs: list[JobSpec[Any]] = []
    # Not by recursion: a chain may have thousands of links.
    stack: list[tuple[Flow[Any], bool]] = [(cast("Flow[Any]", flow), False)]
    while stack:
        node, is_ready = stack.pop()
        if id(node) in places:
            continue
        before: tuple[Flow[Any], ...] = node._before  # pyright: ignore[reportPrivateUsage]
        if not is_ready:
            stack.append((node, True))
            stack.extend((one, False) for one in reversed(before))
            continue
        spec: JobSpec[Any] = node._spec  # pyright: ignore[reportPrivateUsage]
        places[id(node)] = place = len(specs) + 1
        after = tuple(-places[id(one)] for one in before) or spec.after
        specs.append(msgspec.structs.replace(spec, after=after, returns=spec.returns.placed_at(place)))
    if len(specs) > MOST_AFTER:
        raise _too_many("a workflow", len(specs))
    return specs


def _flow(what: Any, where: str) -> Flow[Any]:
    if isinstance(what, Flow):
        return cast("Flow[Any]", what)
    if not isinstance(what, JobSpec):
        raise _invalid(f"{where} has jobs, made with task.job(...), and workflows, got {what!r}")
    _check_keyless(cast("JobSpec[Any]", what))
    return Flow(cast("JobSpec[Any]", what))


def _following(task: Any, before: tuple[Flow[Any], ...], takes: Taking, options: JobOptions) -> Flow[Any]:
    if not isinstance(task, Task):
        raise _invalid(f"a task takes the results of the jobs before it, got {task!r}; a job has its payload already")
    following = cast("Task[..., Any]", task)
    if options.get("after") is not None:
        raise _invalid("after goes without then(), which says for what the job waits")
    name = following.signature.taken_as
    spec = following.spec("{}" if before else encode([] if name is None else {name: []}))
    if not before:
        # The results of no job: it waits for nothing.
        options = cast("JobOptions", {key: value for key, value in options.items() if key != "if_failed"})
    if_failed = options.pop("if_failed", None)
    spec = spec.with_options(**options)
    _check_keyless(spec)
    if before:
        if len({id(one) for one in before}) < len(before):
            raise _invalid("a group has the same workflow twice: make it twice")
        places = tuple(-place for place in range(1, len(before) + 1))
        spec = msgspec.structs.replace(spec, after=places, if_failed=if_failed, takes=takes, takes_as=name)
        spec = spec.with_options()
    return Flow(spec, before)


def _check_keyless(spec: JobSpec[Any]) -> None:
    """Refuse a job that another one could replace, or that could be another one."""
    if not msgspec.structs.replace(spec, after=None).is_keyless:
        raise _invalid(
            f"task {spec.task!r}: a job of a workflow goes without job_key, unique, singleton and idempotency_key"
        )


def _too_many(what: str, count: int) -> InvalidJob:
    said = f"{what} has {count} jobs, at most {MOST_AFTER} are allowed"
    return InvalidJob(said, code=AFTER_CODE, field="after", limit=MOST_AFTER, length=count)


def _invalid(said: str) -> InvalidJob:
    return InvalidJob(said, code=AFTER_CODE, field="after")
