"""Limits on the time of a job, and the durations in which they are written."""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

import msgspec

from asyncq.domain.errors import ConfigurationError

Duration = timedelta | float | str

SHORTEST_S = 0.000001
LONGEST_S = 366 * 86_400

_UNITS_S = {"ms": 0.001, "s": 1.0, "sec": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_WORDS_S = {"second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86_400.0, "week": 604_800.0}
_ALL_S = _UNITS_S | _WORDS_S | {f"{word}s": number for word, number in _WORDS_S.items()}
_PART = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,9})?) ?([a-z]{1,7})")
_TEXT = re.compile(rf"{_PART.pattern}(?: ?{_PART.pattern})*")


def duration_s(value: Duration, name: str) -> float:
    """Convert a duration to seconds.

    Args:
        value: A timedelta, seconds, or numbers with units as text: `"30 s"`, `"5 min"`, `"1 h 30 min"`, `"7 days"`.
        name: The option, for the message.

    Returns:
        More than 0 and at most 366 days.

    Raises:
        ConfigurationError: It is no duration, or outside of this range.
    """
    found = number_of_s(value, name)
    if not SHORTEST_S <= found <= LONGEST_S:
        raise ConfigurationError(f"{name} is {value!r}, expected more than 0, at most 366 days")
    return float(found)


def number_of_s(value: Duration, name: str) -> float:
    """Convert a duration to any number of seconds; the caller checks its range. ConfigurationError if it is none."""
    found: Any = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(found, str):
        found = _seconds_of(found)
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise ConfigurationError(
            f"{name} must be a duration, such as 30 (seconds), '30 s' or a timedelta, got {value!r}"
        )
    return found


def _seconds_of(text: str) -> float | None:
    """Read numbers with units; None if the text has another form."""
    parts = _PART.findall(text)
    if not _TEXT.fullmatch(text) or any(unit not in _ALL_S for _, unit in parts):
        return None
    return sum(float(number) * _ALL_S[unit] for number, unit in parts)


@dataclass(frozen=True, slots=True, init=False)
class Timeout:
    """The time limits of one attempt; one of them is needed.

    Args:
        soft: After this time `ctx.cancelled` is set: the handler should end soon. Seconds, a timedelta, or text such as
            `"20 s"`.
        hard: After this time the handler is cancelled, and the attempt has failed.

    Attributes:
        soft_s: The soft limit in seconds; None if there is none.
        hard_s: The hard limit in seconds; None if there is none.

    Raises:
        ConfigurationError: A limit is no duration, or the soft one is not the shorter one.
    """

    soft_s: float | None
    hard_s: float | None

    def __init__(self, *, soft: Duration | None = None, hard: Duration | None = None) -> None:
        soft_s = None if soft is None else duration_s(soft, "the soft timeout")
        hard_s = None if hard is None else duration_s(hard, "timeout")
        if soft_s is None and hard_s is None:
            raise ConfigurationError("a Timeout needs soft= or hard=")
        if soft_s is not None and hard_s is not None and soft_s >= hard_s:
            raise ConfigurationError(f"the soft timeout is {soft!r}, expected less than the hard one, {hard!r}")
        object.__setattr__(self, "soft_s", soft_s)
        object.__setattr__(self, "hard_s", hard_s)


def as_timeout(value: Timeout | Duration) -> Timeout:
    """Read the option `timeout`: a duration is the hard limit. ConfigurationError if it is not valid."""
    return value if isinstance(value, Timeout) else Timeout(hard=value)


def as_expiry(value: Duration | datetime, name: str) -> timedelta | datetime:
    """Read an option that is a duration or a moment. ConfigurationError if it is no valid duration.

    The caller checks the moment.
    """
    return value if isinstance(value, datetime) else timedelta(seconds=duration_s(value, name))


class Extras(msgspec.Struct, frozen=True, omit_defaults=True):
    """The column `extras` of a job: options that few jobs have.

    `timeout_s` is the hard limit. `keep_s` is the time for which it is kept after its end, 0 if it is not. `watchers`
    are the channels on which its end is notified. `if_failed` is that of a job that waits for others, except wait.
    `awaited` says that other jobs wait for it; without it they may all the same. `passed` says that one of these takes
    its result. `takes` and `takes_as` are those of a job that takes the results of so many `inputs`.
    """

    timeout_s: float | None = None
    soft_s: float | None = None
    keep_s: float | None = None
    watchers: tuple[str, ...] | None = None
    if_failed: str | None = None
    awaited: bool = False
    passed: bool = False
    takes: str | None = None
    takes_as: str | None = None
    inputs: int | None = None


NO_EXTRAS = Extras()


def extras_of(
    timeout: Timeout | None, keep_s: float | None, watcher: str | None = None, if_failed: str | None = None
) -> Extras | None:
    """The options of a job that it has in the column `extras`; None without any.

    `watcher` is the channel of a client; empty for one that will ask.
    """
    if timeout is None and keep_s is None and watcher is None and if_failed is None:
        return None
    hard_s, soft_s = (None, None) if timeout is None else (timeout.hard_s, timeout.soft_s)
    watchers = None if watcher is None else (watcher,) if watcher else ()
    return Extras(hard_s, soft_s, keep_s, watchers, if_failed)


Keep = Duration | Literal[False]


def as_keep_s(value: Keep) -> float:
    """Read the option `keep` in seconds; False is 0. ConfigurationError if it is no valid duration."""
    return 0.0 if value is False else duration_s(value, "keep")


read_extras = msgspec.json.Decoder(Extras).decode
