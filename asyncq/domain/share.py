"""A worker's choice: the queues and limits whose jobs it runs, and their shares of its slots."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from asyncq.domain.errors import ConfigurationError
from asyncq.domain.job import INT2
from asyncq.domain.limit import check_name
from asyncq.domain.options import whole_number

LEAST_WEIGHT = 0.01
MOST_WEIGHT = 100


@dataclass(frozen=True, slots=True)
class Share:
    """The share of a worker's slots for a queue or a limit, in its list `queues`.

    Args:
        name: The name of the queue or of the limit, 1 to 128 characters.
        at_once: How many of its jobs the worker runs at once, at most its `concurrency`; any number by default.
        weight: How many slots it gets beside others that have jobs too: with a weight of 2 twice as many as with 1.
            0.01 to 100; 1 by default.

    Raises:
        ConfigurationError: A value is not valid.
    """

    name: str
    at_once: int | None = field(default=None, kw_only=True)
    weight: float = field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        check_name("the name of a Share", self.name)
        if self.at_once is not None:
            whole_number("at_once of a Share", self.at_once, 1, INT2)
        check_weight("weight of a Share", self.weight)


def check_weight(name: str, value: Any) -> None:
    """Raise ConfigurationError unless a value is a number from 0.01 to 100."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not LEAST_WEIGHT <= value <= MOST_WEIGHT:
        raise ConfigurationError(f"{name} must be a number from {LEAST_WEIGHT} to {MOST_WEIGHT}, got {value!r}")


class Choice(msgspec.Struct, frozen=True):
    """Whose jobs a worker runs: of the shares alone, or without any, of all but the excluded names."""

    shares: tuple[Share, ...] | None = None
    exclude: tuple[str, ...] = ()


def choice_of(queues: Sequence[str | Share] | None, exclude: Iterable[str] | None, *, concurrency: int) -> Choice:
    """The choice by the options of a worker.

    Args:
        queues: Names of queues and limits, or their shares; None for all.
        exclude: Names of queues and limits whose jobs the worker does not run; None for none.
        concurrency: The number of its slots.

    Returns:
        The choice.

    Raises:
        ConfigurationError: An option is no list of names, both have one name, a name is there twice, or a share is
            larger than the worker.
    """
    shares = None if queues is None else tuple(map(_share, _listed("queues", queues, "names or Shares")))
    names = tuple(_listed("exclude", exclude or (), "names"))
    for name in names:
        check_name("a name in exclude", name)
    seen: set[str] = set()
    for share in shares or ():
        if share.name in seen:
            raise ConfigurationError(f"queues has {share.name!r} twice")
        seen.add(share.name)
        if share.name in names:
            raise ConfigurationError(f"queues and exclude both have {share.name!r}: leave it out of one of them")
        if share.at_once is not None and share.at_once > concurrency:
            said = f"the share of {share.name!r} is {share.at_once} jobs at once"
            raise ConfigurationError(f"{said}, but the worker has a concurrency of {concurrency}")
    return Choice(shares, names)


def _share(given: Any) -> Share:
    return given if isinstance(given, Share) else Share(given)


def _listed(name: str, given: Any, things: str) -> list[Any]:
    if isinstance(given, str | bytes | Share) or not isinstance(given, Iterable):
        raise ConfigurationError(f"{name} must be a list of {things}, got {given!r}")
    return [*given]
