"""Observers: a function and the events that it wants."""

import inspect
from typing import Any

import pytest

from asyncq.domain import events
from asyncq.domain.errors import ConfigurationError
from asyncq.domain.events import Event, JobCompleted, JobDiscarded, JobEvent, Observer, UnknownTasks, observer
from asyncq.domain.job import Claim
from tests.support.ids import written

CLAIM = Claim(7, 1, None, 1, 0, 25, 0, 0, 0, 0, 0, 0, None, None, "{}", None, None)


def test_an_observer_is_called_with_each_event() -> None:
    """It gets the event itself."""
    told: list[Event] = []
    event = UnknownTasks(names=("x",))

    observer()(told.append)(event)

    assert [event] == told


def test_an_observer_wants_the_requested_events() -> None:
    """Events of each job are built only if an observer wants them."""

    @observer(JobDiscarded, UnknownTasks)
    def watch(event: Any) -> None: ...

    assert [JobDiscarded, UnknownTasks] == list(watch.wants)


def test_an_observer_that_asks_for_nothing_wants_everything() -> None:
    """The base class includes all events."""

    @observer()
    def watch(event: Any) -> None: ...

    assert [Event] == list(watch.wants)


def test_an_observer_is_named_after_its_function() -> None:
    """A failing one is reported by this name."""

    @observer()
    def watch(event: Any) -> None: ...

    assert repr(watch).endswith("watch")


def test_an_object_with_wants_is_an_observer() -> None:
    """A class of the user's needs no base of ours."""

    class Counter:
        wants = (JobEvent,)

        def __call__(self, event: Any, /) -> None: ...

    assert isinstance(Counter(), Observer)
    assert not isinstance(print, Observer)


@pytest.mark.parametrize("want", [lambda event: None, "JobDiscarded", int, JobDiscarded.__mro__[-1]], ids=written)
def test_an_object_that_is_no_type_of_event_is_refused(want: Any) -> None:
    """`@observer` without parentheses would make an observer that receives nothing."""
    with pytest.raises(ConfigurationError, match=r"for all events write @observer\(\)"):
        observer(want)


def test_an_event_of_a_job_knows_its_id() -> None:
    """The claim has all other fields."""
    assert 7 == JobCompleted(claim=CLAIM, task="t", attempt=1, worker_id=3, duration_s=0.5).job_id


@pytest.mark.parametrize(
    "kind", [kind for kind in vars(events).values() if isinstance(kind, type) and issubclass(kind, Event)]
)
def test_events_are_frozen_and_made_by_name(kind: type[Event]) -> None:
    """Observers share one object; and fields may be added in any place."""
    kinds = {parameter.kind for parameter in inspect.signature(kind).parameters.values()}

    assert kind.__struct_config__.frozen
    assert kinds <= {inspect.Parameter.KEYWORD_ONLY}
