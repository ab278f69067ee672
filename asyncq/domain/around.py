"""Checks the functions that a program puts around its worker, its runs and its adds."""

import inspect
from collections.abc import Callable
from typing import Any

from asyncq.domain.errors import ConfigurationError
from asyncq.domain.signature import call_of


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
    elif inspect.iscoroutinefunction(lifespan) or inspect.iscoroutinefunction(call_of(lifespan)):
        fault = f"{name_of(lifespan)} is a coroutine function: decorate it with @asynccontextmanager, and yield once"
    else:
        return lifespan
    raise ConfigurationError(f"lifespan must be an async context manager function that takes the worker: {fault}")
