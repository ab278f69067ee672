"""The annotations of a handler: parameters are evaluated at import, the return type when it is needed."""

import functools
import inspect
import sys
import typing
from collections import ChainMap
from collections.abc import Callable, Mapping
from typing import Any

if sys.version_info >= (3, 14):
    import annotationlib

    # Otherwise an undefined name in the return type would hide the parameters.
    _FORMAT: Mapping[str, Any] = {"annotation_format": annotationlib.Format.FORWARDREF}
else:
    _FORMAT: Mapping[str, Any] = {}


class UnreadableAnnotation(ValueError):
    """An annotation cannot be evaluated; the message names it and the reason."""


def parameters_of(handler: Callable[..., Any]) -> list[inspect.Parameter]:
    """The parameters of a handler, with evaluated annotations; a signature that a decorator set is used.

    Raises UnreadableAnnotation, or `inspect.signature`'s TypeError or ValueError.
    """
    scope = _Scope(handler)
    return [
        parameter.replace(annotation=scope.evaluate(parameter.annotation, f"parameter {parameter.name!r}"))
        for parameter in inspect.signature(handler, **_FORMAT).parameters.values()
    ]


def unread_parameters_of(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """The parameters of a function, whose annotations are not evaluated."""
    return [*inspect.signature(function, **_FORMAT).parameters.values()]


def returned_by(handler: Callable[..., Any]) -> Any:
    """The return type of a handler; `inspect.Signature.empty` without one. Raises UnreadableAnnotation."""
    return _Scope(handler).evaluate(inspect.signature(handler, **_FORMAT).return_annotation, "the return type")


class _Scope:
    """The names that an annotation of a handler may use."""

    def __init__(self, handler: Callable[..., Any]) -> None:
        layers = [layer for layer in layers_of(handler) if hasattr(layer, "__globals__")]
        # Most annotations use names of the innermost function; a decorator may have added others.
        self._globals: dict[str, Any] = layers[0].__globals__ if layers else {}
        generic = {kind.__name__: kind for layer in layers for kind in getattr(layer, "__type_params__", ())}
        self._locals = ChainMap(generic, layers[-1].__globals__ if layers else {})

    def evaluate(self, annotation: Any, where: str) -> Any:
        if isinstance(annotation, typing.ForwardRef):
            annotation = annotation.__forward_arg__
        if not isinstance(annotation, str):
            return annotation
        try:
            return eval(annotation, self._globals, self._locals)  # noqa: S307 - the user's own code, as `inspect` does
        except Exception as error:
            raise UnreadableAnnotation(f"the annotation of {where} cannot be read: {error}") from error


def layers_of(handler: Any) -> list[Any]:
    """A handler and the callables that it wraps, from the outside to the inside; the function is the last one."""
    layers = [handler]
    while True:
        if isinstance(handler, functools.partial):
            handler = handler.func
        elif hasattr(handler, "__wrapped__"):
            handler = handler.__wrapped__
        elif hasattr(handler, "__func__"):
            handler = handler.__func__
        elif not inspect.isroutine(handler) and not inspect.isclass(handler) and callable(handler):
            handler = type(handler).__call__
        else:
            return layers
        layers.append(handler)
