"""A handler's signature: what it takes from the payload, whether it wants a context; read once, at import.

    async def f(email: Email, ctx: JobContext)   one parameter that is no scalar: the payload itself
    async def f(day: str, dry_run: bool = False) parameters are the fields of the payload
    async def f(ctx: JobContext)                 the payload is ignored
    async def f(day: str, pool: Pool = use(...)) pool is a resource, and no part of the payload

What cannot be served is refused with a sentence when the module is imported.
"""

import functools
import inspect
import types
import typing
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Protocol

import msgspec

from asyncq.domain.annotations import UnreadableAnnotation, parameters_of, returned_by
from asyncq.domain.constraints import constraints_of, has_schema
from asyncq.domain.errors import InvalidJob, TaskError
from asyncq.domain.fields import Fields, has_path, names_in
from asyncq.domain.models.adapter import Adapter, Unreadable, library
from asyncq.domain.models.parameters import ParametersReader, ParametersWriter
from asyncq.domain.payload import DEFAULT_MAX_PAYLOAD, encode
from asyncq.domain.resource import check_uses, without_uses
from asyncq.domain.result import ResultType

EMPTY = "{}"


class Reader(Protocol):
    """Reads the payload of a task from JSON text; raises msgspec's errors."""

    def decode(self, payload: str, /) -> Any: ...


class Context:
    """The base of what a handler receives beside its payload; marks the parameter that takes it.

    `of_many` says whether it is that of several jobs in one call.
    """

    __slots__ = ()
    of_many: ClassVar[bool] = False


class Signature:
    """How a handler is called; TaskError if it cannot be served.

    If it is not `is_async`, it runs in a thread. `whole_payload`: its one parameter is the payload itself, of
    `payload_type`. `uses` has the resources of the parameters that take one. With `collects` the one parameter is a
    list of the payloads of several jobs.
    """

    def __init__(self, handler: Callable[..., Any], name: str, *, collects: bool = False, items: bool = False) -> None:
        self._name = name
        self._collects = collects
        self._items = items
        self._handler = handler
        self.is_async = _is_async(handler, name)
        parameters, self.uses = without_uses(_parameters(handler, name), name)
        check_uses(name, self.uses.values(), is_async=self.is_async)
        context = [parameter for parameter in parameters if is_context(parameter)]
        if len(context) > 1:
            raise TaskError(f"task {name!r}: two parameters take the context: {context[0].name} and {context[1].name}")
        _check_context(context, name, of_many=collects)
        payload = [parameter for parameter in parameters if parameter not in context]
        if collects:
            payload = [_member_of(payload, name)]
        self.takes_context = bool(context)
        self.whole_payload = collects or (len(payload) == 1 and not is_scalar(_annotation(payload[0])))
        self.payload_type: Any = _annotation(payload[0]) if self.whole_payload else None
        self._arguments = _arguments(payload)
        # Each field of a payload has a name, also that of a parameter that is positional only.
        named = [each.replace(kind=max(each.kind, each.POSITIONAL_OR_KEYWORD)) for each in payload]
        self._binder = inspect.Signature(named)
        with _refusing(name):
            adapters = _adapters(payload, name)
            self._decoder = _decoder(payload, adapters, whole=self.whole_payload, name=name)
        self._fields = Fields(_field_names(payload, adapters, whole=self.whole_payload, is_read=not context), name)
        # A payload without types of pydantic costs no look for them.
        self._encode = encode
        if self.whole_payload and adapters:
            self._encode = adapters[payload[0].name].encode
        elif adapters:
            self._encode = ParametersWriter(adapters, self._arguments).encode
        # Python's order: positional parameters, then keyword-only ones; the context may be anywhere.
        by_position = [parameter for parameter in parameters if parameter.kind is not parameter.KEYWORD_ONLY]
        self._names = tuple(parameter.name for parameter in payload if parameter.kind is parameter.KEYWORD_ONLY)
        self._positions = len(payload) - len(self._names)
        self._context_name = context[0].name if context else ""
        self._context_at = by_position.index(context[0]) if context and context[0] in by_position else None
        self._default = payload[0].default if self.whole_payload else inspect.Parameter.empty
        self.has_default = self._default is not inspect.Parameter.empty
        self._empty_means_default = self.has_default and not self._decodes(EMPTY)

    @functools.cached_property
    def returned(self) -> Any:
        """The return type of the handler, evaluated only here, or TaskError; `inspect.Signature.empty` without one."""
        try:
            return returned_by(self._handler)
        except UnreadableAnnotation as error:
            raise TaskError(f"task {self._name!r}: {error}") from error

    @property
    def results(self) -> ResultType:
        """How results are written and read, by the return type; TaskError if its annotation cannot be evaluated."""
        return self._results

    @functools.cached_property
    def _results(self) -> ResultType:
        if self._collects:
            # The handler returns a list, of which each job gets one member.
            return ResultType(Any)
        if self._items:
            # It returns outcomes, of which those that are good are forgotten.
            return ResultType(None)
        returned = self.returned
        return ResultType(Any if returned is inspect.Signature.empty else returned)

    def _decodes(self, payload: str) -> bool:
        try:
            self._read(payload)
        except Exception:  # noqa: BLE001 - msgspec's, or what a user's __post_init__ raises
            return False
        return True

    def _read(self, payload: str) -> tuple[Any, ...]:
        """The values of the parameters for the payload, in their order."""
        if self._decoder is None:
            return ()
        decoded = self._decoder.decode(payload)
        return (decoded,) if self.whole_payload else msgspec.structs.astuple(decoded)

    def decode(self, payload: str, context: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The positional and keyword arguments of a call, with the context in its place; raises msgspec's errors."""
        if self._empty_means_default and payload == EMPTY:
            values: tuple[Any, ...] = (self._default,)
        else:
            values = self._read(payload)
        if not self._names and not self.takes_context:
            return values, {}
        return self.arguments(values, context)

    def decode_member(self, payload: str) -> Any:
        """The member of the list of a handler that collects, for the payload of one job; raises msgspec's errors."""
        return self._read(payload)[0]

    def arguments(self, values: tuple[Any, ...], context: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The positional and keyword arguments of a call, for the values of its parameters and the context."""
        named: dict[str, Any] = dict(zip(self._names, values[self._positions :], strict=True))
        values = values[: self._positions]
        if self._context_at is not None:
            values = (*values[: self._context_at], context, *values[self._context_at :])
        elif self.takes_context:
            named[self._context_name] = context
        return values, named

    def encode_call(self, args: tuple[Any, ...], kwargs: dict[str, Any], limit: int = DEFAULT_MAX_PAYLOAD) -> str:
        """The payload that makes the worker call the handler with these arguments, without the context.

        It is checked against the handler's types (InvalidJob, code GWBPL). Parameters that were not given are left
        out: their defaults are those of the handler that runs it.
        """
        if not self.whole_payload:
            # What becomes an object with a member for each parameter that was given.
            try:
                members = self._bind(args, kwargs) if self._arguments is None else self._arguments(*args, **kwargs)
            except TypeError:
                members = self._bind(args, kwargs)
            return self.encode_payload(members, limit)
        if len(args) == 1 and not (kwargs or self._names):
            return self.encode_payload(args[0], limit, is_strict=True)
        given = self._bind(args, kwargs)
        if not given:
            return EMPTY if self._empty_means_default else self.encode_payload(self._default, limit)
        return self.encode_payload(next(iter(given.values())), limit, is_strict=True)

    @property
    def taken_as(self) -> str | None:
        """The member of the payload that its one argument becomes; None for the whole payload.

        TaskError if it takes no argument, or needs more than one.
        """
        if self.whole_payload:
            return None
        parameters = [*self._binder.parameters.values()]
        if not parameters:
            raise TaskError(f"task {self._name!r} has no parameter for the result of the jobs before it")
        if needed := next((each.name for each in parameters[1:] if each.default is each.empty), None):
            raise TaskError(f"task {self._name!r} takes the result of the jobs before it, and needs {needed!r} too")
        return parameters[0].name

    def names_arguments(self, value: Any) -> bool:
        """Whether a value looks as if it were all arguments of a call by name, and not one of them."""
        if self.whole_payload or not isinstance(value, dict):
            return False
        try:
            return bool(self._binder.bind(**value).arguments)
        except TypeError:
            return False

    def _bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The parameters that the arguments of a call are for; says what is wrong with them."""
        try:
            return self._binder.bind(*args, **kwargs).arguments
        except TypeError as error:
            # Unknown names are checked first: a misspelt argument makes another one missing.
            Fields(self._binder.parameters, self._name).check_names(kwargs, "parameter")
            said = f"payload of task {self._name!r}: {error}"
            raise InvalidJob(said, code="GWBPL", field="payload") from error

    def check_fields(self, payload: str) -> None:
        """Raise InvalidJob with code GWBPL for a payload with a field that the handler does not take."""
        self._fields.check(payload)

    def fault_of_path(self, path: Sequence[str]) -> str | None:
        """Why no payload has a member at a path of names in JSON, as a sentence; None if one may have it."""
        if fault := self._fields.fault_of(path[0]):
            return fault
        annotation, rest = self.payload_type, path
        if not self.whole_payload:
            parameter = self._binder.parameters.get(path[0])
            if parameter is None:  # The handler reads the payload from its context.
                return None
            annotation, rest = _annotation(parameter), path[1:]
        # The schemas of pydantic are not searched: a model may read a member by several names.
        is_known = library() is None or not has_schema(annotation)
        if is_known and not has_path(msgspec.inspect.type_info(annotation), rest):
            return f"no payload has a member at {'.'.join(path)!r}"
        return None

    def encode_payload(self, value: Any, limit: int = DEFAULT_MAX_PAYLOAD, *, is_strict: bool = False) -> str:
        """A payload as JSON text, checked against the handler's types; InvalidJob (GWBPL) names the path of the field.

        The value is an instance of the handler's type, or anything that encodes to the same JSON. With `is_strict`,
        a field that the handler does not take is refused.
        """
        text = self._encode(value, limit=limit)
        if is_strict:
            self.check_fields(text)
        if self._empty_means_default and text == EMPTY:
            return text
        try:
            if self._decoder is not None:
                self._decoder.decode(text)
        except msgspec.MsgspecError as error:
            # Unknown names are checked first: a misspelt field makes another one missing.
            self.check_fields(text)
            said = f"payload of task {self._name!r}: {error}"
            raise InvalidJob(said, code="GWBPL", field="payload") from error
        return text


def _check_context(context: list[inspect.Parameter], name: str, *, of_many: bool) -> None:
    """Refuse the context of one job in a handler of several, and the other way round."""
    kinds = [kind for parameter in context for kind in _members(parameter.annotation) if isinstance(kind, type)]
    if any(issubclass(kind, Context) and kind.of_many != of_many for kind in kinds):
        expected = "JobsContext, because of its collect" if of_many else "JobContext: it has no collect"
        raise TaskError(f"task {name!r}: parameter {context[0].name!r} must be a {expected}")


def _member_of(payload: list[inspect.Parameter], name: str) -> inspect.Parameter:
    """The parameter of a handler that collects, as if it took one of the members of its list."""
    if len(payload) != 1 or not is_list(_annotation(payload[0])):
        raise TaskError(
            f"task {name!r}: collect needs one parameter that is a list of payloads, as in `async def send(emails: "
            "list[Email])`"
        )
    (kind,) = _members(_annotation(payload[0]))
    return payload[0].replace(annotation=(*typing.get_args(kind), Any)[0])


def _field_names(
    payload: list[inspect.Parameter], adapters: Mapping[str, Adapter], *, whole: bool, is_read: bool
) -> Iterable[str] | None:
    """The fields that a payload may have; None for any: a handler without parameters reads it from its context."""
    if whole and adapters:
        return adapters[payload[0].name].names
    if whole:
        return names_in(msgspec.inspect.type_info(_annotation(payload[0])))
    return [parameter.name for parameter in payload] if payload or is_read else None


def _arguments(payload: list[inspect.Parameter]) -> type[msgspec.Struct] | None:
    """A struct that takes the arguments of a call, where none has to be named; a binder takes longer than all else."""
    if any(parameter.kind is parameter.KEYWORD_ONLY for parameter in payload):
        return None
    fields = [
        (parameter.name, Any) if parameter.default is parameter.empty else (parameter.name, Any, msgspec.UNSET)
        for parameter in payload
    ]
    return msgspec.defstruct("Arguments", fields, gc=False)


def _is_async(handler: Callable[..., Any], name: str) -> bool:
    """Whether the handler is a coroutine function; raises for what cannot be run."""
    if isinstance(handler, classmethod):
        raise TaskError(f"task {name!r}: a handler is a function, got a classmethod; make it a staticmethod")
    if not callable(handler):
        raise TaskError(f"task {name!r}: a handler is a function, got {handler!r}")
    if inspect.isclass(handler):
        raise TaskError(f"task {name!r}: a handler is a function, got the class {handler.__name__}")
    call = call_of(handler)
    if inspect.isasyncgenfunction(call) or inspect.isgeneratorfunction(call):
        raise TaskError(f"task {name!r}: the handler is a generator (it has a yield); a handler is a plain function")
    return inspect.iscoroutinefunction(call)


def innermost(function: Callable[..., Any]) -> Any:
    """The callable inside nested partials."""
    while isinstance(function, functools.partial):
        function = function.func
    return function


def call_of(function: Callable[..., Any]) -> Any:
    """What runs when something is called: below partials and static methods, and for an object its `__call__`."""
    call: Any = function
    while isinstance(call, functools.partial | staticmethod):
        call = call.func if isinstance(call, functools.partial) else call.__func__
    return call if inspect.isroutine(call) else type(call).__call__


def _parameters(handler: Callable[..., Any], name: str) -> list[inspect.Parameter]:
    try:
        parameters = parameters_of(handler)
    except UnreadableAnnotation as error:
        raise TaskError(
            f"task {name!r}: {error}; import it at the top of the module, not under TYPE_CHECKING"
        ) from error
    except (TypeError, ValueError) as error:
        raise TaskError(f"task {name!r}: the handler has no readable signature: {error}") from error
    _refuse_method(handler, parameters, name)
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            stars = "*" if parameter.kind is parameter.VAR_POSITIONAL else "**"
            raise TaskError(
                f"task {name!r}: {stars}{parameter.name} cannot be filled from a payload; name the parameters, "
                "or take one dict"
            )
    return parameters


def _refuse_method(handler: Callable[..., Any], parameters: list[inspect.Parameter], name: str) -> None:
    """Refuse a method that is not bound: no payload contains its object."""
    first = parameters[0].name if parameters else ""
    path: str = getattr(innermost(handler), "__qualname__", "")
    owner = path.rpartition(".")[0]
    if first in ("self", "cls") and owner and not owner.endswith("<locals>") and not inspect.ismethod(handler):
        raise TaskError(
            f"task {name!r}: {path} is a method, and no payload holds its {first!r}; decorate a function or a "
            f"staticmethod, or make a task of an object's method: task(name=...)(obj.{path.rpartition('.')[2]})"
        )


def _adapters(payload: list[inspect.Parameter], name: str) -> dict[str, Adapter]:
    """What writes and reads the parameters whose types have a schema of pydantic, by their names."""
    found: dict[str, Adapter] = {}
    for parameter in payload:
        place = f"task {name!r}: parameter {parameter.name!r}"
        if default := next((rule for rule in constraints_of(parameter) if rule.is_default), None):
            raise TaskError(f"{place}: {default.text} would not be checked; use Annotated[int, Field(gt=0)]")
        if library() is None or not has_schema(parameter.annotation):
            continue
        try:
            found[parameter.name] = Adapter(parameter.annotation)
        except Unreadable as error:
            raise TaskError(f"{place} cannot be read from JSON: {error}") from error
    return found


def _decoder(
    payload: list[inspect.Parameter], adapters: Mapping[str, Adapter], *, whole: bool, name: str
) -> Reader | None:
    """Reads the payload itself, or a struct whose fields are the parameters."""
    for parameter in payload:
        if parameter.name not in adapters:
            _check_readable(parameter, name)
    if not payload:
        return None
    if whole:
        return adapters.get(payload[0].name) or msgspec.json.Decoder(_annotation(payload[0]))
    fields = [_field(item, msgspec.Raw if item.name in adapters else _annotation(item)) for item in payload]
    decoder = msgspec.json.Decoder(msgspec.defstruct("Payload", fields, kw_only=True))
    return ParametersReader(decoder, adapters) if adapters else decoder


@contextmanager
def _refusing(name: str) -> Generator[None]:
    """Raise TaskError for types that cannot be read."""
    try:
        yield
    except (TypeError, ValueError, NameError) as error:
        raise TaskError(f"task {name!r}: a parameter cannot be read from JSON: {error}") from error
    except RecursionError as error:
        raise TaskError(
            f"task {name!r}: a parameter cannot be read from JSON: its type holds itself; give it a msgspec.Struct "
            "that does, or Any"
        ) from error


def _field(parameter: inspect.Parameter, kind: Any) -> tuple[str, Any] | tuple[str, Any, Any]:
    if parameter.default is parameter.empty:
        return parameter.name, kind
    # The default itself, not a copy: as when the function is called.
    return parameter.name, kind, msgspec.field(default_factory=lambda: parameter.default)


def _check_readable(parameter: inspect.Parameter, name: str) -> None:
    """Refuse classes that msgspec would refuse only when a job runs, and constraints that it ignores."""
    if (foreign := _foreign(msgspec.inspect.type_info(_annotation(parameter)), set())) is not None:
        raise TaskError(
            f"task {name!r}: parameter {parameter.name!r} cannot be read from JSON, because of the class "
            f"{foreign.__module__}.{foreign.__qualname__}: use a msgspec.Struct, a dataclass, a TypedDict or plain "
            "types; for the context annotate it with JobContext"
        )
    if rule := next(iter(constraints_of(parameter)), None):
        raise TaskError(
            f"task {name!r}: parameter {parameter.name!r}: {rule.text} would not be checked, because pydantic is not "
            "imported; import it, or use msgspec.Meta, as in Annotated[int, msgspec.Meta(gt=0)]"
        )


def _foreign(info: Any, seen: set[int]) -> type[Any] | None:
    """The first class in a type that msgspec does not know."""
    if isinstance(info, msgspec.inspect.CustomType):
        return None if info.cls is object else info.cls
    if isinstance(info, tuple):
        parts: list[Any] = [*info]
    elif isinstance(info, msgspec.inspect.Type | msgspec.inspect.Field) and id(info) not in seen:
        seen.add(id(info))
        parts = [getattr(info, name) for name in info.__struct_fields__ if name not in ("default", "default_factory")]
    else:
        return None
    return next((found for part in parts if (found := _foreign(part, seen)) is not None), None)


def _annotation(parameter: inspect.Parameter) -> Any:
    return Any if parameter.annotation is parameter.empty else parameter.annotation


def is_context(parameter: inspect.Parameter) -> bool:
    """Whether it takes the context: by its type, or, without one, by the name ctx."""
    if parameter.annotation is parameter.empty:
        return parameter.name == "ctx"
    return any(isinstance(kind, type) and issubclass(kind, Context) for kind in _members(parameter.annotation))


def _members(annotation: Any) -> tuple[Any, ...]:
    """The types that a union, an Annotated, a NewType or an alias stands for."""
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return _members(typing.get_args(annotation)[0])
    if origin in (typing.Union, types.UnionType):
        return tuple(member for part in typing.get_args(annotation) for member in _members(part))
    for real in ("__supertype__", "__value__"):  # NewType("X", int), and `type X = int` of Python 3.12
        if hasattr(annotation, real):
            return _members(getattr(annotation, real))
    return (annotation,)


def is_list(annotation: Any) -> bool:
    """Whether the values of a type are lists."""
    return all((typing.get_origin(kind) or kind) in (list, Sequence) for kind in _members(annotation))


def is_scalar(annotation: Any) -> bool:
    """Whether values of a type are single values (a field of the payload) and not objects or arrays (a payload).

    Any, dicts, lists, structs, and unions with one of them are not.
    """
    members = [member for member in _members(annotation) if member is not type(None)]
    return bool(members) and all(_is_scalar_type(member) for member in members)


def _is_scalar_type(kind: Any) -> bool:
    if typing.get_origin(kind) is typing.Literal:
        return True
    if kind is Any or kind is object or typing.get_origin(kind) is not None or not inspect.isclass(kind):
        return False
    if issubclass(kind, str | bytes | bytearray | memoryview):
        return True
    marks = ("__struct_fields__", "__dataclass_fields__", "__attrs_attrs__", "__total__")
    return not (issubclass(kind, Iterable | msgspec.Raw) or any(hasattr(kind, mark) for mark in marks))
