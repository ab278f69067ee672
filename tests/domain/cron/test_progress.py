"""The progress of an item: at the start, late, after an outage, and when the clock goes back."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from asyncq.domain.cron.item import CronItem
from asyncq.domain.cron.progress import Progress, begin, due, keep_up
from asyncq.domain.cron.slot import Known

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
NOON = datetime(2021, 1, 1, 12, tzinfo=UTC)


def item(match: str = "0 * * * *", **options: Any) -> CronItem:
    """An item, due at each full hour."""
    return CronItem("rollup", match, **options)


def slots(of: CronItem, progress: Progress, until: datetime = NOON) -> list[str]:
    """Its next slots, as times of the day; those that were missed in brackets."""
    return [f"({slot.at:%H:%M})" if slot.backfilled else f"{slot.at:%H:%M}" for slot in due(of, progress, until)]


def test_an_item_begins_with_the_very_moment_of_the_start() -> None:
    """A worker that starts at 12:00:00.000000 is not late."""
    assert ["12:00"] == slots(item(), begin(item(), Known(NOON), NOON))


def test_a_new_item_has_missed_nothing() -> None:
    """Its fill does not matter, since it did not exist before."""
    new = item(fill=DAY)

    assert ["12:00"] == slots(new, begin(new, Known(NOON), NOON))


def test_an_item_with_a_fill_begins_with_the_missed_slots() -> None:
    """The missed slots come together with the one that is due now, and are marked."""
    filled = item(fill=DAY)

    assert ["(10:00)", "(11:00)", "12:00"] == slots(filled, begin(filled, Known(NOON - DAY, NOON - 3 * HOUR), NOON))


def test_an_item_without_a_fill_begins_now() -> None:
    """Slots before the start are not added."""
    assert ["12:00"] == slots(item(), begin(item(), Known(NOON - DAY, NOON - 3 * HOUR), NOON))


@pytest.mark.parametrize("fill", [timedelta(0), 10 * MINUTE, HOUR, 3 * HOUR])
def test_an_item_that_keeps_up_is_left_as_it_is(fill: timedelta) -> None:
    """Nothing changes from minute to minute."""
    kept = item("* * * * *", fill=fill)
    progress = Progress(NOON - MINUTE, NOON - HOUR)

    assert Progress(NOON - MINUTE, NOON - HOUR) == keep_up(kept, progress, NOON)


@pytest.mark.parametrize(
    ("fill", "expected"),
    [
        (timedelta(0), ["11:00", "11:20", "11:40", "12:00"]),
        (2 * HOUR, ["(10:00)", "(10:20)", "(10:40)", "11:00", "11:20", "11:40", "12:00"]),
        (30 * MINUTE, ["11:00", "11:20", "11:40", "12:00"]),
    ],
    ids=["none", "longer", "shorter"],
)
def test_a_late_worker_adds_the_last_hour_and_with_a_fill_all_missed_slots(
    fill: timedelta, expected: list[str]
) -> None:
    """The machine slept for a night: a job for each minute would be a flood."""
    late = item("*/20 * * * *", fill=fill)

    assert expected == slots(late, keep_up(late, Progress(NOON - DAY, NOON - 2 * DAY), NOON))


def test_a_clock_that_goes_back_brings_the_slots_again() -> None:
    """The database knows which of them became jobs. The others must not wait for the old future."""
    ahead = Progress(NOON + DAY, NOON + DAY)

    assert Progress(NOON, NOON) == keep_up(item(), ahead, NOON)


def test_after_an_outage_an_item_continues_where_it_was() -> None:
    """The worker was running, so nothing was missed, and no slot is skipped for lack of a fill."""
    before = Progress(NOON - 40 * MINUTE, NOON - DAY)
    often = item("*/20 * * * *")

    assert ["11:40", "12:00"] == slots(often, begin(often, Known(NOON - DAY, NOON - HOUR), NOON, before))


def test_after_an_outage_an_item_with_a_fill_checks_again_the_slots_that_the_database_lacks() -> None:
    """A standby that took over may lack the last jobs."""
    before = Progress(NOON - 40 * MINUTE, NOON - DAY)
    filled = item("*/20 * * * *", fill=DAY)

    found = slots(filled, begin(filled, Known(NOON - DAY, NOON - 80 * MINUTE), NOON, before))

    assert ["(11:00)", "(11:20)", "11:40", "12:00"] == found


def test_after_a_long_outage_the_last_hour_is_left() -> None:
    """A machine that slept for long adds the same slots."""
    often = item("*/20 * * * *")

    found = slots(often, begin(often, Known(NOON - DAY), NOON, Progress(NOON - 5 * HOUR, NOON - DAY)))

    assert ["11:00", "11:20", "11:40", "12:00"] == found
