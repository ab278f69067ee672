"""Resources: what a handler gets beside its payload, such as a pool or an HTTP client.

    @resource                                                  opened once for a worker
    async def open_pool() -> AsyncGenerator[Pool]: ...

    @task
    async def ship(order: Order, pool: Pool = use(open_pool)) -> None: ...

The default value says where a parameter comes from, and so no payload has it.
"""

import inspect
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Generic, Literal, Protocol, TypeVar, cast, get_args, overload

from asyncq.domain.annotations import unread_parameters_of
from asyncq.domain.errors import ConfigurationError, TaskError

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

Scope = Literal["worker", "job"]


class Resource(Generic[T_co]):
    """Something that a worker opens for its handlers, and closes again; the result of `@resource`.

    Attributes:
        name: The name of the function, for messages.
        scope: `"worker"`: opened once, at its first use. `"job"`: opened for each run.
        uses: The resources that its function takes, by parameter.
        takes: The parameter that receives the value of the worker's lifespan; None without one.
    """

    def __init__(self, function: Callable[..., AsyncIterator[T_co]], scope: Scope = "worker") -> None:
        self.name: str = getattr(function, "__qualname__", repr(function))
        if not inspect.isasyncgenfunction(function):
            raise TaskError(f"resource {self.name}: a resource is an async generator function: async def, with a yield")
        if scope not in get_args(Scope):
            raise TaskError(f"resource {self.name}: scope must be 'worker' or 'job', got {scope!r}")
        self.scope: Scope = scope
        parameters = unread_parameters_of(function)
        self.uses = {each.name: each.default.resource for each in parameters if isinstance(each.default, Use)}
        self.takes = self._taken(parameters)
        self._manager = asynccontextmanager(function)
        for used in self.uses.values():
            _check_scopes(f"resource {self.name}", self, used)

    def _taken(self, parameters: Sequence[inspect.Parameter]) -> str | None:
        """The parameter for the value of the lifespan; others without a default are refused."""
        by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        if bad := next((each.name for each in parameters if each.kind not in by_name), None):
            raise TaskError(f"resource {self.name}: parameter {bad!r} cannot be passed by name")
        needed = [each.name for each in parameters if each.default is each.empty]
        if len(needed) > 1:
            raise TaskError(
                f"resource {self.name}: only one parameter without a default can receive the value of the lifespan, "
                f"and there are {', '.join(needed)}; write use(...) as the default of another resource"
            )
        return needed[0] if needed else None

    def enter(self, values: Mapping[str, Any], lifespan: Any) -> AbstractAsyncContextManager[T_co]:
        """Make the context manager that opens it.

        Args:
            values: The values of the resources that it uses, by parameter.
            lifespan: The value that the worker's lifespan has yielded.

        Returns:
            The context manager, whose value is that of the resource.
        """
        taken = {} if self.takes is None else {self.takes: lifespan}
        return self._manager(**taken, **values)

    def __repr__(self) -> str:
        return f"<Resource {self.name}>"


class Use:
    """The default value of a parameter that takes a resource."""

    __slots__ = ("resource",)

    def __init__(self, resource: Resource[Any]) -> None:
        self.resource = resource

    def __repr__(self) -> str:
        return f"use({self.resource.name})"

    def __getattr__(self, name: str) -> Any:
        # A test that calls the handler itself gets here, since only a worker opens resources.
        said = f"only a worker opens resource {self.resource.name}: pass the value in a direct call of the function"
        raise AttributeError(said, name=name, obj=self)


class _Decorator(Protocol):
    def __call__(self, function: Callable[..., AsyncIterator[T]], /) -> Resource[T]: ...


@overload
def resource(function: Callable[..., AsyncIterator[T]], /) -> Resource[T]: ...
@overload
def resource(*, scope: Scope = "worker") -> _Decorator: ...
def resource(function: Callable[..., Any] | None = None, /, *, scope: Scope = "worker") -> Any:
    """Make an async generator function a resource, which handlers take by `use`.

    Args:
        function: The function, when used without parentheses. It opens the resource, yields it once, and closes it. A
            parameter with `use(...)` as its default takes another resource. One parameter without a default receives
            the value that the worker's lifespan yielded.
        scope: `"worker"`, the default: opened once, at its first use, and closed after the last run. `"job"`: opened
            before each run, and closed after it. An exception of the handler is raised at the `yield`.

    Returns:
        The resource.

    Raises:
        TaskError: The function is no async generator function, or a resource of the worker uses one of a job.
    """

    def decorate(function: Callable[..., AsyncIterator[Any]]) -> Resource[Any]:
        return Resource(function, scope)

    return decorate if function is None else decorate(function)


def use(resource: Resource[T]) -> T:
    """Take a resource: the default value of a parameter of a handler, or of another resource.

    Args:
        resource: The resource.

    Returns:
        A mark that the worker replaces by the value; for type checkers the value.

    Raises:
        TaskError: It is no resource.
    """
    if not isinstance(resource, Resource):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TaskError(f"use() takes a function that is decorated with @resource, got {resource!r}")
    return cast(Any, Use(resource))


def without_uses(
    parameters: Iterable[inspect.Parameter], task: str
) -> tuple[list[inspect.Parameter], dict[str, Resource[Any]]]:
    """Split the parameters of a handler into those without a resource, and the resources of the others by name.

    A handler gets its resources by name, and so all parameters behind the first one of them.
    """
    left: list[inspect.Parameter] = []
    uses: dict[str, Resource[Any]] = {}
    for parameter in parameters:
        if isinstance(parameter.default, Use):
            if parameter.kind is parameter.POSITIONAL_ONLY:
                said = "a resource is passed by name, and so it cannot be positional only"
                raise TaskError(f"task {task!r}: parameter {parameter.name!r}: {said}")
            uses[parameter.name] = parameter.default.resource
        else:
            left.append(parameter.replace(kind=parameter.KEYWORD_ONLY) if uses else parameter)
    return left, uses


def check_overrides(given: Any) -> dict[Resource[Any], Resource[Any]]:
    """Check the overrides of a worker, and make each value a resource; ConfigurationError names a bad one."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ConfigurationError(f"overrides must be a dict of resources, got {given!r}")
    found: dict[Resource[Any], Resource[Any]] = {}
    for original, instead in cast("Mapping[Any, Any]", given).items():
        if not isinstance(original, Resource):
            raise ConfigurationError(f"overrides: {original!r} is no resource: name functions decorated with @resource")
        if inspect.isasyncgenfunction(instead):
            raise ConfigurationError(f"overrides: decorate {instead.__qualname__} with @resource")
        resource = cast("Resource[Any]", original)
        found[resource] = instead if isinstance(instead, Resource) else _value(resource, instead)
    return found


def check_uses(
    task: str,
    uses: Iterable[Resource[Any]],
    *,
    is_async: bool,
    overrides: Mapping[Resource[Any], Resource[Any]] | None = None,
    has_lifespan: bool = True,
) -> None:
    """Check the resources of a task, and the resources that these use; TaskError names a bad one."""
    replaced = overrides or {}

    def check(used: Resource[Any], path: tuple[Resource[Any], ...]) -> None:
        found = replaced.get(used, used)
        if found in path:
            names = " -> ".join(each.name for each in (*path[path.index(found) :], found))
            raise TaskError(f"task {task!r}: these resources use each other: {names}")
        if path:
            _check_scopes(f"task {task!r}", path[-1], found)
        if found.scope == "job" and not is_async:
            raise TaskError(
                f"task {task!r}: a plain function runs in a thread, and resource {found.name} of its job is opened in "
                "the event loop: make it a coroutine function"
            )
        if found.takes is not None and not has_lifespan:
            raise TaskError(
                f"task {task!r}: parameter {found.takes!r} of resource {found.name} receives the value of the "
                "lifespan, and this worker has no lifespan"
            )
        for inner in found.uses.values():
            check(inner, (*path, found))

    for each in uses:
        check(each, ())


def _check_scopes(where: str, outer: Resource[Any], inner: Resource[Any]) -> None:
    if outer.scope == "worker" and inner.scope == "job":
        raise TaskError(
            f"{where}: resource {outer.name} is opened once for a worker, and cannot use {inner.name}, which is opened "
            "for each job"
        )


def _value(original: Resource[Any], value: Any) -> Resource[Any]:
    """A resource that yields a given value."""

    async def given() -> AsyncIterator[Any]:
        yield value

    found = Resource(given, original.scope)
    found.name = original.name
    return found
