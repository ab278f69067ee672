"""The kinds of handlers, where they run, and which ones are refused at import."""

# ruff: noqa: D103 - handlers, whose names say it

import functools
import typing
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import msgspec
import pytest

from asyncq.domain.errors import TaskError
from asyncq.domain.signature import Context, Signature

CTX = Context()


class Email(msgspec.Struct):
    to: str
    subject: str = "none"


class Options(msgspec.Struct):
    loud: bool = False


class Own:
    """A class without a JSON form."""


class HoldsOwn(msgspec.Struct):
    name: str
    own: list[Own]


def one_field(day: str) -> Any:
    return day


def two_fields(day: str, n: int) -> Any:
    return day, n


def payload_then_context(email: Email, ctx: Context) -> Any:
    return email, ctx


# Kinds of handlers, and where they run


async def coroutine(x: int) -> int:
    return x


class AsyncCallable:
    """An object with a coroutine method to call."""

    async def __call__(self, x: int, ctx: Context) -> Any:
        return x

    async def method(self, x: int) -> int:
        return x

    @classmethod
    async def class_method(cls, x: int) -> int:
        return x

    @staticmethod
    async def static_method(x: int) -> int:
        return x


class SyncCallable:
    def __call__(self, x: int) -> int:
        return x


@functools.wraps(one_field)
def wrapped(*args: Any, **kwargs: Any) -> Any:
    return one_field(*args, **kwargs)


@pytest.mark.parametrize(
    ("handler", "expected"),
    [
        (coroutine, True),
        (AsyncCallable(), True),
        (AsyncCallable().method, True),
        (AsyncCallable.class_method, True),
        (AsyncCallable.static_method, True),
        (functools.partial(coroutine, 1), True),
        (functools.partial(functools.partial(coroutine), x=1), True),
        (functools.partial(AsyncCallable(), 1), True),
        (one_field, False),
        (SyncCallable(), False),
        (functools.partial(one_field, "x"), False),
        (wrapped, False),
    ],
)
def test_coroutine_functions_and_plain_functions_are_distinguished(handler: Callable[..., Any], expected: bool) -> None:
    """One is awaited in the loop, the other called in a thread. A partial counts as its function."""
    assert expected == Signature(handler, "t").is_async


@pytest.mark.parametrize(
    ("handler", "payload", "expected"),
    [
        (SyncCallable(), '{"x":5}', 5),
        (functools.partial(two_fields, "x"), '{"n":2}', ("x", 2)),
        (functools.partial(two_fields, day="x"), '{"n":2}', ("x", 2)),
        (functools.partial(two_fields, day="x"), '{"n":2,"day":"y"}', ("y", 2)),
        (functools.partial(payload_then_context, Email("a@b.c")), "{}", (Email("a@b.c"), CTX)),
        (wrapped, '{"day":"x"}', "x"),
    ],
    ids=["object", "partial", "partial by name", "partial overridden", "partial with context", "wrapped"],
)
def test_objects_partials_and_wrapped_functions_are_handlers(
    handler: Callable[..., Any], payload: str, expected: Any
) -> None:
    """Any callable with a signature is accepted."""
    args, kwargs = Signature(handler, "t").decode(payload, CTX)

    assert expected == handler(*args, **kwargs)


# Handlers that are refused


def star(*days: str) -> None: ...
def stars(**fields: str) -> None: ...
def own_class(own: Own) -> None: ...
def own_class_in_a_list(owns: list[Own]) -> None: ...
def own_class_in_a_field(n: int, own: Own | None = None) -> None: ...
def own_class_in_a_struct(holder: HoldsOwn) -> None: ...
def unreadable(x: "Nowhere") -> None: ...  # noqa: F821 - the point
def callback(call: Callable[[], None]) -> None: ...
def two_structs(x: Email | Options) -> None: ...


def generator(x: int) -> Iterator[int]:
    yield x


async def async_generator(x: int) -> AsyncIterator[int]:
    yield x


class GeneratorObject:
    def __call__(self, x: int) -> Iterator[int]:
        yield x


@pytest.mark.parametrize(
    ("handler", "said"),
    [
        (star, r"\*days cannot be filled from a payload"),
        (stars, r"\*\*fields cannot be filled from a payload"),
        (own_class, "parameter 'own' cannot be read from JSON, because of the class .*Own"),
        (own_class_in_a_list, "parameter 'owns' cannot be read .*Own"),
        (own_class_in_a_field, "parameter 'own' cannot be read .*Own"),
        (own_class_in_a_struct, "parameter 'holder' cannot be read .*Own"),
        (unreadable, "name 'Nowhere' is not defined; import it at the top"),
        (callback, "cannot be read from JSON"),
        (two_structs, "cannot be read from JSON"),
        (generator, "is a generator"),
        (async_generator, "is a generator"),
        (GeneratorObject(), "is a generator"),
        (functools.partial(generator, 1), "is a generator"),
        (Own, "got the class Own"),
        (Email, "got the class Email"),
        ("handler", "a handler is a function, got 'handler'"),
        (None, "a handler is a function, got None"),
        (min, "no readable signature"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_handler_that_cannot_be_served_is_refused_with_a_sentence(handler: Any, said: str) -> None:
    """It is refused when its module is imported, with the task's name."""
    with pytest.raises(TaskError, match=f"task 't': .*({said})"):
        Signature(handler, "t")


def test_a_struct_with_an_annotation_that_cannot_be_read_is_refused() -> None:
    """Its decoder needs the class too."""
    broken = msgspec.defstruct("broken", [("x", "Nowhere")])

    def handler(payload: Any) -> None: ...

    handler.__annotations__["payload"] = broken

    with pytest.raises(TaskError, match="Nowhere"):
        Signature(handler, "t")


@pytest.mark.skipif(not hasattr(typing, "TypeAliasType"), reason="`type X = ...` came with Python 3.12")
def test_a_type_that_holds_itself_is_refused_with_a_sentence() -> None:
    """msgspec would recurse in it up to Python's limit."""
    names: dict[str, Any] = {}
    exec("type Nested = list[Nested] | int", names)  # Python 3.11 cannot read it

    def handler(payload: Any) -> None: ...

    handler.__annotations__["payload"] = names["Nested"]

    with pytest.raises(TaskError, match="task 't': a parameter cannot be read from JSON: its type holds itself"):
        Signature(handler, "t")
