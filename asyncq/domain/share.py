"""A worker's choice: the queues and limits whose jobs it runs, and their shares of its slots."""

from collections.abc import Iterable, Mapping, Sequence
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

    @property
    def names(self) -> list[str] | None:
        """The queues and limits whose jobs it runs; None for all but the excluded ones."""
        return None if self.shares is None else [share.name for share in self.shares]

    @property
    def is_shared_out(self) -> bool:
        """Whether slots are divided among the shares."""
        return any(share.at_once is not None or share.weight != 1 for share in self.shares or ())


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


class Portion(msgspec.Struct, frozen=True):
    """Jobs of partitions that a worker fetches by one statement.

    Attributes:
        which: The jobs, as the JSON object that `fetch_partitions` reads (`_chosen`); None for all.
        share: Their share of the slots; None for jobs without one.
    """

    which: str | None = None
    share: Share | None = None

    @property
    def at_once(self) -> int:
        return INT2 if self.share is None or self.share.at_once is None else self.share.at_once

    @property
    def weight(self) -> float:
        return 1 if self.share is None else self.share.weight


def portions_of(choice: Choice, limits: Mapping[int, str | None]) -> list[Portion]:
    """The portions of a worker with a choice.

    Args:
        choice: The choice.
        limits: The limit of each of its tasks by the task's id, None for no limit; without tasks of excluded limits.

    Returns:
        One portion, or if a share has bounds or a weight, one for each share, and one for jobs without queue and limit.
        A job whose queue and whose limit are named belongs to the share of its queue.
    """
    if choice == Choice():
        return [Portion()]
    shares, excluded = choice.shares, list(choice.exclude)
    free = [task_id for task_id, limit in limits.items() if limit is None]
    if shares is None:
        return [Portion(_which(excluded, (), [*limits]))]
    if not choice.is_shared_out:
        names = choice.names or []
        return [Portion(_which(excluded, names, _of_limits(limits, names), free))]
    found = [Portion(_which(excluded, (), (), free))]
    for share in shares:
        others = [other.name for other in shares if other is not share]
        found.append(Portion(_which(excluded + others, [share.name], _of_limits(limits, [share.name])), share))
    return found


def rooms(wanted: int, portions: Sequence[Portion], taken: Sequence[int]) -> list[int]:
    """Divide free slots among portions, one after the other.

    Each slot goes to a portion without a slot, if there is one; else to the one that has the fewest for its weight.

    Args:
        wanted: The number of free slots.
        portions: The portions.
        taken: How many slots each has already.

    Returns:
        The number of slots for each.
    """
    sums = [*taken]
    for _ in range(wanted):
        open_ones = [place for place, portion in enumerate(portions) if sums[place] < portion.at_once]
        if not open_ones:
            break
        sums[min(open_ones, key=lambda place: (sums[place] > 0, (sums[place] + 1) / portions[place].weight))] += 1
    return [now - before for now, before in zip(sums, taken, strict=True)]


def _which(but: Iterable[str], queues: Iterable[str], whole: Iterable[int], free: Iterable[int] = ()) -> str:
    """A choice as JSON: of the `queues`, of the tasks `whole`, and of `free` without a queue; but no queue of `but`."""
    return msgspec.json.encode({"but": but, "queues": queues, "whole": whole, "free": free}).decode()


def _of_limits(limits: Mapping[int, str | None], names: Sequence[str]) -> list[int]:
    return [task_id for task_id, limit in limits.items() if limit in names]
