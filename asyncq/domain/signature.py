"""A handler's signature: what it takes from the payload, whether it wants a context; read once, at import.

    async def f(email: Email, ctx: JobContext)   one parameter that is no scalar: the payload itself
    async def f(day: str, dry_run: bool = False) parameters are the fields of the payload
    async def f(ctx: JobContext)                 the payload is ignored
"""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from asyncq.domain.errors import InvalidJob, TaskError
from asyncq.domain.payload import DEFAULT_MAX_PAYLOAD, encode


class Context:
    """The base of what a handler receives beside its payload; marks the parameter that takes it."""

    __slots__ = ()


class Signature:
    """How a handler is called.

    Attributes:
        takes_context: Whether it has a parameter for the context.
        is_async: Whether it is a coroutine function; others run in threads.
        whole_payload: Whether its one parameter is the payload itself.
    """

    def __init__(self, handler: Callable[..., Any], name: str) -> None:
        self._name = name
        self.is_async = _kind(handler, name)
        parameters = _parameters(handler, name)
        context = [parameter for parameter in parameters if _is_context(parameter)]
        if len(context) > 1:
            raise TaskError(f"task {name!r}: two parameters take the context: {context[0].name} and {context[1].name}")
        self._context = context[0] if context else None
        self._payload = [parameter for parameter in parameters if parameter is not self._context]
        self.takes_context = self._context is not None
        self.whole_payload = len(self._payload) == 1 and not is_scalar(_annotation(self._payload[0]))
        # A context that stands last beside one payload is passed by position: the fast and usual form.
        order = [parameter.name for parameter in parameters if parameter.kind is not parameter.KEYWORD_ONLY]
        self._context_first = self._context is not None and order[:1] == [self._context.name]
        self._by_position = len(order) == len(parameters)
        self._decoder = self._build_decoder()

    def _build_decoder(self) -> msgspec.json.Decoder[Any] | None:
        try:
            if self.whole_payload:
                return msgspec.json.Decoder(_annotation(self._payload[0]))
            if not self._payload:
                return None
            fields: list[Any] = [
                (parameter.name, _annotation(parameter))
                if parameter.default is parameter.empty
                else (parameter.name, _annotation(parameter), msgspec.field(default_factory=_returns(parameter.default)))
                for parameter in self._payload
            ]
            return msgspec.json.Decoder(msgspec.defstruct("Payload", fields, kw_only=True))
        except (TypeError, ValueError) as error:
            raise TaskError(f"task {self._name!r}: a parameter cannot be read from JSON: {error}") from error

    def decode(self, payload: str, context: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a call.

        Args:
            payload: The payload as JSON text.
            context: What goes into the parameter for the context, if there is one.

        Returns:
            Positional and keyword arguments.

        Raises:
            msgspec.ValidationError: The payload does not fit; the message holds the path of the field.
            msgspec.DecodeError: It is no JSON.
        """
        if self._decoder is None:
            values: tuple[Any, ...] = ()
        elif self.whole_payload:
            values = (self._decoder.decode(payload),)
        else:
            decoded = self._decoder.decode(payload)
            values = tuple(getattr(decoded, parameter.name) for parameter in self._payload)
        if self._by_position:
            if self._context is None:
                return values, {}
            if self._context_first:
                return (context, *values), {}
            if len(values) == 1:
                return (*values, context), {}
        named = {parameter.name: value for parameter, value in zip(self._payload, values, strict=True)}
        if self._context is not None:
            named[self._context.name] = context
        return (), named

    def encode_call(self, args: tuple[Any, ...], kwargs: dict[str, Any], limit: int = DEFAULT_MAX_PAYLOAD) -> str:
        """The payload that makes the worker call the handler with these arguments.

        Args:
            args: Positional arguments, without the context.
            kwargs: Keyword arguments, without the context.
            limit: The largest payload in bytes.

        Returns:
            The payload as JSON text, checked against the handler's types.

        Raises:
            InvalidJob: With code GWBPL: an argument is missing, unknown, or of another type.
        """
        try:
            bound = inspect.Signature(
                [parameter.replace(kind=_bindable(parameter)) for parameter in self._payload]
            ).bind(*args, **kwargs)
        except TypeError as error:
            said = f"payload of task {self._name!r}: {error}"
            raise InvalidJob(said, code="GWBPL", field="payload") from error
        value = bound.arguments.get(self._payload[0].name, {}) if self.whole_payload else bound.arguments
        return self.encode_payload(value, limit)

    def encode_payload(self, value: Any, limit: int = DEFAULT_MAX_PAYLOAD) -> str:
        """A payload as JSON text, checked against the handler's types.

        Args:
            value: The payload: an instance of the handler's type, or what encodes to the same JSON.
            limit: The largest payload in bytes.

        Returns:
            The JSON text.

        Raises:
            InvalidJob: With code GWBPL: it does not fit; the message holds the path of the field.
        """
        text = encode(value, limit=limit)
        if self._decoder is not None:
            try:
                self._decoder.decode(text)
            except msgspec.MsgspecError as error:
                said = f"payload of task {self._name!r}: {error}"
                raise InvalidJob(said, code="GWBPL", field="payload") from error
        return text


def _kind(handler: Callable[..., Any], name: str) -> bool:
    """Whether the handler is a coroutine function; raises for what cannot be run."""
    if not callable(handler):
        raise TaskError(f"task {name!r}: a handler is a function, got {handler!r}")
    call = handler if inspect.isroutine(handler) else getattr(handler, "__call__", handler)  # noqa: B004
    while hasattr(call, "func"):  # functools.partial
        call = call.func  # pyright: ignore[reportFunctionMemberAccess, reportUnknownMemberType, reportUnknownVariableType]
    if inspect.isasyncgenfunction(call) or inspect.isgeneratorfunction(call):
        raise TaskError(f"task {name!r}: the handler is a generator (it has a yield); a handler is a plain function")
    if inspect.isclass(handler):
        raise TaskError(f"task {name!r}: a handler is a function, got the class {handler.__name__}")
    return inspect.iscoroutinefunction(call)


def _parameters(handler: Callable[..., Any], name: str) -> list[inspect.Parameter]:
    try:
        signature = inspect.signature(handler, eval_str=True)
    except (NameError, SyntaxError, AttributeError) as error:
        raise TaskError(
            f"task {name!r}: an annotation cannot be read: {error}; import it at the top of the module, "
            "not under TYPE_CHECKING"
        ) from error
    except (TypeError, ValueError) as error:
        raise TaskError(f"task {name!r}: the handler has no readable signature: {error}") from error
    for parameter in signature.parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            stars = "*" if parameter.kind is parameter.VAR_POSITIONAL else "**"
            raise TaskError(
                f"task {name!r}: {stars}{parameter.name} cannot be filled from a payload; name the parameters, "
                "or take one dict"
            )
    return list(signature.parameters.values())


def _annotation(parameter: inspect.Parameter) -> Any:
    return Any if parameter.annotation is parameter.empty else parameter.annotation


def _is_context(parameter: inspect.Parameter) -> bool:
    """Whether it takes the context: by its type, or, without one, by the name ctx."""
    if parameter.annotation is parameter.empty:
        return parameter.name == "ctx"
    return any(isinstance(kind, type) and issubclass(kind, Context) for kind in _members(parameter.annotation))


def _members(annotation: Any) -> tuple[Any, ...]:
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return _members(typing.get_args(annotation)[0])
    if origin in (typing.Union, types.UnionType):
        return tuple(member for part in typing.get_args(annotation) for member in _members(part))
    return (annotation,)


def is_scalar(annotation: Any) -> bool:
    """Whether values of a type are single values (a field of the payload) and not objects or arrays (a payload)."""
    members = [member for member in _members(annotation) if member is not type(None)]
    return bool(members) and all(_is_scalar_type(member) for member in members)


def _is_scalar_type(kind: Any) -> bool:
    if typing.get_origin(kind) is typing.Literal:
        return True
    if kind is Any or typing.get_origin(kind) is not None or not isinstance(kind, type):
        return False
    if issubclass(kind, msgspec.Struct | dict | list | tuple | set | frozenset | msgspec.Raw):
        return False
    if dataclasses.is_dataclass(kind) or typing.is_typeddict(kind) or hasattr(kind, "__attrs_attrs__"):
        return False
    return kind is not object and not issubclass(kind, Mapping)


def _bindable(parameter: inspect.Parameter) -> Any:
    return parameter.KEYWORD_ONLY if parameter.kind is parameter.KEYWORD_ONLY else parameter.POSITIONAL_OR_KEYWORD


def _returns(value: Any) -> Callable[[], Any]:
    return lambda: value
