"""An observer that keeps events, and lets tests wait for them."""

from collections import Counter
from typing import TypeVar

from asyncq.domain.events import Event, JobEvent
from tests.support.waiting import LIMIT_S, wait_until

EventT = TypeVar("EventT", bound=Event)
JobEventT = TypeVar("JobEventT", bound=JobEvent)


class Seen:
    """The events of a test, in order; an observer of everything."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def __call__(self, event: Event) -> None:
        self.events.append(event)

    def of(self, kind: type[EventT]) -> list[EventT]:
        """The events of a type so far."""
        return [event for event in self.events if isinstance(event, kind)]

    def ids(self, kind: type[JobEventT]) -> list[int]:
        """The ids of the jobs of these events, in the order in which they happened."""
        return [event.job_id for event in self.of(kind)]

    async def wait_for(self, kind: type[EventT], count: int = 1, *, limit_s: float = LIMIT_S) -> EventT:
        """Wait until so many events of a type have happened; returns the last of them."""
        try:
            await wait_until(
                lambda: len(self.of(kind)) >= count, description=f"{count} x {kind.__name__}", limit_s=limit_s
            )
        except AssertionError as error:
            told = Counter(type(event).__name__ for event in self.events)
            raise AssertionError(f"{error}; seen: {dict(told)}") from None
        return self.of(kind)[count - 1]
