"""Failures in a row of one part of a worker."""

from asyncq.domain.events import Event, PartRecovered
from asyncq.engine.base.outage import Outage


def test_the_end_of_an_outage_is_reported_once_with_the_number_of_failures() -> None:
    """A part that has not failed reports nothing; the next outage counts from one."""
    told: list[Event] = []
    outage = Outage("fetching", told.append)
    outage.over()
    failures = [outage.failed(), outage.failed(), outage.failed()]
    outage.over()
    outage.over()
    failures.append(outage.failed())

    assert [1, 2, 3, 1] == failures
    assert [("fetching", 3, True)] == [
        (event.part, event.failures, event.lasted_s >= 0) for event in told if isinstance(event, PartRecovered)
    ]
