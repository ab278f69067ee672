"""The address of a handler that runs in another process, which imports it: its module, and its name there."""

import inspect
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from asyncq.domain.errors import ConfigurationError, TaskError
from asyncq.domain.signature import Signature

PROCESS = "process"


class Address(msgspec.Struct, frozen=True):
    """Where another process finds a handler, or the task that it became."""

    module: str
    path: str

    def __str__(self) -> str:
        return f"{self.module}.{self.path}"

    def find_in(self, module: Any) -> Any:
        """What has this name in its module; None if nothing has."""
        found = module
        for part in self.path.split("."):
            found = getattr(found, part, None)
        return found


def address_of(handler: Callable[..., Any], signature: Signature, run_in: Any, name: str) -> Address | None:
    """The address of a handler with the option `run_in`; None without it. TaskError if no process can run it."""
    if run_in is None:
        return None
    function: Any = handler.__func__ if isinstance(handler, staticmethod) else handler
    if run_in != PROCESS:
        fault = f"run_in is {run_in!r}, expected 'process'"
    elif signature.is_async:
        fault = "a coroutine function runs in the event loop: run_in='process' is for plain functions"
    elif signature.takes_context:
        fault = "a handler in another process has no context: leave its parameter out"
    elif signature.uses:
        fault = f"a handler in another process takes no resources: leave {next(iter(signature.uses))!r} out"
    elif not inspect.isfunction(function):
        fault = f"another process cannot import {function!r}: decorate a function of a module"
    elif "<" in function.__qualname__:
        fault = f"another process cannot import {function.__qualname__}: decorate a function of a module"
    else:
        return Address(function.__module__, function.__qualname__)
    raise TaskError(f"task {name!r}: {fault}")


def check_addresses(tasks: Mapping[str, Any]) -> None:
    """Check that other processes can import the handlers with an address: TaskError; ConfigurationError on Windows."""
    addresses: dict[str, Address] = {name: task.address for name, task in tasks.items() if task.address is not None}
    if addresses and (os.name != "posix" or getattr(sys, "frozen", False)):
        raise ConfigurationError(
            f"run_in='process' of task {next(iter(addresses))!r} needs Linux or macOS, and a Python interpreter"
        )
    for name, address in addresses.items():
        if address.module == "__main__":
            raise TaskError(
                f"task {name!r}: another process cannot import {address.path}, which belongs to the program itself "
                "(__main__): move it into a module"
            )
        found = address.find_in(sys.modules.get(address.module))
        if getattr(found, "address", None) != address and not inspect.isfunction(found):
            raise TaskError(f"task {name!r}: another process cannot import {address}: there it is {found!r}")
