"""Slots of items: due ones, missed ones, the next one; and the job of each."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from asyncq.domain.cron.item import CronItem
from asyncq.domain.cron.slot import Known, Slot, in_order, job_of, missed_after, next_run, slots
from asyncq.domain.job import JobSpec
from asyncq.domain.task import task

HOUR = timedelta(hours=1)
NOON = datetime(2021, 1, 1, 12, tzinfo=UTC)


@task(queue="mail", max_attempts=3)
async def send_email(to: str = "") -> None:
    """A task with defaults."""


def hourly(**options: Any) -> CronItem:
    """An item that is due at each full hour."""
    return CronItem("rollup", "0 * * * *", **options)


def missed(item: CronItem, known: Known, start: datetime) -> list[str]:
    """The slots that are filled in, as times of the day."""
    just_before = start - timedelta(microseconds=1)
    return [f"{slot.at:%H:%M}" for slot in slots(item, missed_after(item, known, start), just_before)]


def test_the_slots_of_an_interval_are_not_backfilled() -> None:
    """A worker that is late by some minutes was running."""
    item = hourly()

    assert [Slot(item, NOON + HOUR), Slot(item, NOON + 2 * HOUR)] == list(slots(item, NOON, NOON + 2 * HOUR))


def test_slots_of_several_items_are_ordered_by_time_then_by_item() -> None:
    """The ids of their jobs have this order, and so have their runs."""
    first, second = hourly(identifier="b"), hourly(identifier="a")
    found = [*slots(first, NOON, NOON + 2 * HOUR), *slots(second, NOON, NOON + 2 * HOUR)]

    expected = [(1, "b"), (1, "a"), (2, "b"), (2, "a")]

    assert expected == [((slot.at - NOON) // HOUR, slot.item.identifier) for slot in in_order(found)]


@pytest.mark.parametrize(
    ("match", "tz", "after", "expected"),
    [
        ("* * * * *", "UTC", "2024-01-01T00:00:00+00:00", "2024-01-01T00:01:00+00:00"),
        ("* * * * *", "UTC", "2024-01-01T00:00:59+00:00", "2024-01-01T00:01:00+00:00"),
        ("0 8 * * *", "Europe/Berlin", "2024-01-01T00:00:00+00:00", "2024-01-01T07:00:00+00:00"),
        ("0 0 29 2 *", "UTC", "2096-02-29T00:00:00+00:00", "2104-02-29T00:00:00+00:00"),
        ("30 2 29 2 *", "Asia/Kolkata", "2096-03-01T00:00:00+00:00", "2104-02-28T21:00:00+00:00"),
        ("* 2 29 2 *", "Asia/Kolkata", "2096-03-01T00:00:00+00:00", "2104-02-28T20:30:00+00:00"),
        ("0 12 * * *", "UTC", "2024-01-01T13:00:00+02:00", "2024-01-01T12:00:00+00:00"),
    ],
)
def test_the_next_run_is_later_than_the_start(match: str, tz: str, after: str, expected: str) -> None:
    """The wait is eight years at most: from 2096 to 2104 there is no 29 February."""
    assert datetime.fromisoformat(expected) == next_run(CronItem("x", match, tz=tz), datetime.fromisoformat(after))


def test_a_function_that_is_false_for_a_month_has_no_next_run() -> None:
    """It can only be asked minute by minute; 31 days take some hundredths of a second."""
    assert None is next_run(CronItem("x", lambda _: False), NOON)


def test_the_next_run_of_a_function_is_the_first_minute_for_which_it_is_true() -> None:
    """The search covers a month."""
    item = CronItem("x", lambda minute: minute.date >= 15)

    assert datetime(2021, 1, 15, tzinfo=UTC) == next_run(item, NOON)


@pytest.mark.parametrize(
    ("known", "fill", "expected"),
    [
        # As graphile-worker does it: executed three hours ago, seen first 90 minutes ago, new.
        (Known(NOON - 24 * HOUR, NOON - 3 * HOUR), 6 * HOUR, ["10:00", "11:00"]),
        (Known(NOON - 1.5 * HOUR), 6 * HOUR, ["11:00"]),
        (Known(NOON), 6 * HOUR, []),
        # Never longer ago than `fill`, to the moment.
        (Known(NOON - 24 * HOUR, NOON - 20 * HOUR), 3 * HOUR, ["09:00", "10:00", "11:00"]),
        (Known(NOON - 24 * HOUR, NOON - 20 * HOUR), 3 * HOUR - timedelta(seconds=1), ["10:00", "11:00"]),
        # Without `fill` nothing at all.
        (Known(NOON - 24 * HOUR, NOON - 20 * HOUR), timedelta(0), []),
        # Seen first at the very minute of a slot: that one counts.
        (Known(NOON - 2 * HOUR), 6 * HOUR, ["10:00", "11:00"]),
        # It was resumed, or changed, at this minute: that one counts, none before.
        (Known(NOON - 24 * HOUR, NOON - 20 * HOUR, NOON - 2 * HOUR), 6 * HOUR, ["10:00", "11:00"]),
        # The clock was set back: the last execution lies ahead.
        (Known(NOON - 24 * HOUR, NOON + HOUR), 6 * HOUR, []),
    ],
    ids=["last", "since", "new", "fill", "less-than-fill", "no-fill", "since-slot", "resumed", "clock-back"],
)
def test_missed_slots_since_the_last_execution_are_filled_in(
    known: Known, fill: timedelta, expected: list[str]
) -> None:
    """Missed slots come in order. The slot at the start itself belongs to the scheduler."""
    assert expected == missed(hourly(fill=fill), known, NOON)


def test_a_slot_just_before_the_start_is_filled_in() -> None:
    """Either the fill or the scheduler must add it."""
    assert ["12:00"] == missed(hourly(fill=HOUR), Known(NOON - HOUR, NOON - HOUR), NOON + timedelta(microseconds=1))


def test_the_fill_uses_the_zone_of_the_item() -> None:
    """The fill may span a change of the clocks: the daily slot in the gap is added like any other."""
    item = CronItem("x", "30 2 * * *", tz="Europe/Berlin", fill=timedelta(days=3))
    start = datetime(2024, 3, 31, 12, tzinfo=UTC)

    assert ["01:30", "01:30", "01:00"] == missed(item, Known(start - timedelta(days=30)), start)


def test_the_job_of_a_slot_is_due_at_its_time_and_has_it_in_its_payload() -> None:
    """It is the time of the slot, not that of the add, in the format of graphile-worker."""
    item = CronItem(
        send_email, "0 4 * * *", payload={"to": "a@b.c"}, priority=2, job_key="k", job_key_mode="replace", flags=["f"]
    )
    at = datetime(2021, 1, 1, 4, tzinfo=UTC)

    expected = JobSpec(
        task="send_email",
        payload='{"to":"a@b.c","_cron":{"ts":"2021-01-01T04:00:00.000Z","backfilled":false}}',
        queue="mail",
        run_at=at,
        max_attempts=3,
        priority=2,
        flags=("f",),
        job_key="k",
        job_key_mode="replace",
    )

    assert expected == job_of(Slot(item, at))


def test_a_job_that_was_filled_in_is_marked() -> None:
    """A handler may ignore a report of last week."""
    payload = json.loads(job_of(Slot(hourly(), NOON, backfilled=True)).payload)

    assert {"_cron": {"ts": "2021-01-01T12:00:00.000Z", "backfilled": True}} == payload


def test_cron_overrides_a_cron_member_of_the_payload() -> None:
    """A `_cron` that was written by hand, or copied from a job, would be wrong."""
    item = hourly(payload={"_cron": 5, "a": 1})

    assert '{"a":1,"_cron":{"ts":"2021-01-01T12:00:00.000Z","backfilled":false}}' == job_of(Slot(item, NOON)).payload
