"""The options of a worker: defaults with units, checked once."""

import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any, cast

import msgspec

from asyncq.domain.errors import ConfigurationError, seconds
from asyncq.domain.result import DEFAULT_MAX_RESULT, LARGEST_RESULT
from asyncq.domain.stored_text import is_storable
from asyncq.domain.time_limit import as_keep_s

Flags = Sequence[str]
ForbiddenFlags = Flags | Callable[[], Flags | Awaitable[Flags | None] | None] | None

LONGEST_POLL_S = 60.0
MIB = 1024 * 1024
BLOCKED_AFTER_S = 1.0
UNHEALTHY_AFTER_S = 30.0
DISCARDED_RETENTION = timedelta(days=30)
ERROR_RETENTION = timedelta(days=7)

_DELAYS = (
    ("poll", 0.01, LONGEST_POLL_S),
    ("lease", 1.0, 86400.0),
    ("pool_wait", 0.01, 3600.0),
    ("unhealthy_after", 0.1, 86400.0),
)


class WorkerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a worker, in seconds where a name ends so; `Worker` explains them."""

    concurrency: int = 10
    poll_s: float = 2.0
    lease_s: float = 30.0
    grace_s: float = 25.0
    pool_size: int = 5
    pool_wait_s: float = 30.0
    listen: bool = True
    stats: bool = True
    forbidden_flags: ForbiddenFlags = None
    discarded_retention_s: float | None = DISCARDED_RETENTION.total_seconds()
    error_retention_s: float | None = ERROR_RETENTION.total_seconds()
    keep_s: float | None = None
    blocked_after_s: float | None = BLOCKED_AFTER_S
    unhealthy_after_s: float = UNHEALTHY_AFTER_S
    processes: int | None = None
    process_memory: int | None = None
    max_result: int = DEFAULT_MAX_RESULT

    def __post_init__(self) -> None:
        whole_number("concurrency", self.concurrency, 1, 10_000)
        whole_number("pool_size", self.pool_size, 1, 1_000)
        if self.processes is not None:
            whole_number("processes", self.processes, 1, 1_000)
        if self.process_memory is not None:
            whole_number("process_memory", self.process_memory, 16 * MIB, 2**50)
            if sys.platform != "linux":
                raise ConfigurationError("process_memory needs Linux")
        whole_number("max_result", self.max_result, 1, LARGEST_RESULT)
        for name, least, most in _DELAYS:
            value: float = getattr(self, f"{name}_s")
            if not least <= value <= most:
                raise ConfigurationError(f"{name} must lie between {least:g} and {most:g} seconds, got {value:g}")
        if self.blocked_after_s is not None and not 0.05 <= self.blocked_after_s <= 3600.0:
            raise ConfigurationError(
                f"blocked_after must lie between 0.05 and 3600 seconds, or be None, got {self.blocked_after_s:g}"
            )
        flags: Any = self.forbidden_flags
        if not (flags is None or callable(flags) or are_flags(flags)):
            raise ConfigurationError(
                f"forbidden_flags must be a list of str that PostgreSQL can store, or a function, got {flags!r}"
            )


def are_flags(flags: Any) -> bool:
    """Whether the value is a list of flags that a worker may forbid: texts that PostgreSQL can store."""
    if isinstance(flags, str) or not isinstance(flags, Sequence | set | frozenset):
        return False
    return all(isinstance(flag, str) and is_storable(flag) for flag in cast(Iterable[object], flags))


def whole_number(name: str, value: Any, least: int, most: int) -> int:
    """Check an option that is a number; a text, as from the environment, is refused with the option's name."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ConfigurationError(f"{name} must be a whole number from {least} to {most}, got {value!r}")
    return value


def switch(name: str, value: Any) -> bool:
    """Check an option that is on or off; a text is refused, because even `"0"` would be on."""
    if not isinstance(value, bool):
        raise ConfigurationError(f"{name} must be True or False, got {value!r}")
    return value


def worker_options(**given: Any) -> WorkerOptions:
    """Make the options from the arguments of `Worker`: delays are timedeltas or seconds, None is the default.

    None for `discarded_retention` is for ever, None for `error_retention` and `blocked_after` is never.
    ConfigurationError names a bad value.
    """
    never = ("discarded_retention", "error_retention", "blocked_after")
    delays = {"poll", "lease", "grace", "pool_wait", "unhealthy_after", *never}
    named: dict[str, Any] = {
        (f"{name}_s" if name in delays else name): (seconds(value, name) if name in delays else value)
        for name, value in given.items()
        if value is not None
    }
    for name in never:
        if given.get(name, 0) is None:
            named[f"{name}_s"] = None
    if (keep := named.pop("keep", None)) is not None:
        named["keep_s"] = as_keep_s(keep)
    return WorkerOptions(**named)
