"""Limits as the database knows them: their values, those that were declared, and the partitions."""

from collections.abc import Iterator

import msgspec


class LimitValues(msgspec.Struct, frozen=True, kw_only=True):
    """What a limit allows; None is no limit.

    Attributes:
        at_once: How many jobs of each key may run at once; of a queue, how many of its jobs.
        total: How many jobs of all keys may run at once.
        rate: How many jobs of each key may start in `per_s` seconds; of a queue, how many of its jobs.
        per_s: The seconds of `rate`.
        total_rate: How many jobs of all keys may start in `total_per_s` seconds.
        total_per_s: The seconds of `total_rate`.
        fair: Whether the keys take turns.
    """

    at_once: int | None = None
    total: int | None = None
    rate: int | None = None
    per_s: float | None = None
    total_rate: int | None = None
    total_per_s: float | None = None
    fair: bool = False

    def __str__(self) -> str:
        return ", ".join(self._parts()) or "no limit"

    def _parts(self) -> Iterator[str]:
        of_each = " of each key"
        if self.at_once is not None:
            yield f"{self.at_once} at once{of_each}"
        if self.total is not None:
            yield f"{self.total} at once"
        if self.rate is not None:
            yield f"{self.rate} starts in {self.per_s:g} s{of_each}"
        if self.total_rate is not None:
            yield f"{self.total_rate} starts in {self.total_per_s:g} s"
        if self.fair:
            yield "keys take turns"
