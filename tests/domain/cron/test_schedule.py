"""The times at which a pattern is due, above all at changes of the clocks; and no search takes long."""

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncq.domain.cron.expression import expand
from asyncq.domain.cron.schedule import instants
from asyncq.domain.cron.times import TimeDigest, Times
from asyncq.domain.cron.zone import find_zone
from tests.support.cron_expressions import includes

MINUTE = timedelta(minutes=1)
ZONES = ["UTC", "Europe/Berlin", "America/Havana", "Australia/Lord_Howe", "America/St_Johns", "Asia/Kolkata"]


def utc(text: str) -> datetime:
    """An instant."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def pattern(text: str) -> Times:
    """The sets of an expression."""
    return expand(text, "crontab", "x")


def due(text: str, zone: str, after: str, until: str) -> list[str]:
    """The times at which an expression is due, as local times of its zone with the offset."""
    found = find_zone(zone)
    slots = instants(pattern(text), found, utc(after), utc(until))
    return [f"{slot.astimezone(found):%d %H:%M%z}" for slot in slots]


def test_the_interval_is_open_at_its_start_and_closed_at_its_end() -> None:
    """Adjacent intervals then neither skip nor repeat a slot."""
    assert ["01 00:15+0000", "01 00:30+0000"] == due("*/15 * * * *", "UTC", "2024-01-01", "2024-01-01 00:30")
    assert ["01 00:15+0000"] == due("*/15 * * * *", "UTC", "2024-01-01 00:00:01", "2024-01-01 00:29:59")
    assert [] == due("*/15 * * * *", "UTC", "2024-01-01 00:15", "2024-01-01 00:15")


# Berlin leaps from 02:00 to 03:00 on 31 March and sets back from 03:00 to 02:00 on 27 October; Havana from 00:00 to
# 01:00 on 10 March and from 01:00 to 00:00 on 3 November; Lord Howe from 02:00 to 02:30 on 6 October, and from 02:00 to
# 01:30 on 7 April.
@pytest.mark.parametrize(
    ("text", "zone", "day", "expected"),
    [
        ("30 2 * * *", "Europe/Berlin", "2024-03-30", ["30 02:30+0100", "31 03:00+0200"]),
        ("30 2 * * *", "Europe/Berlin", "2024-10-26", ["26 02:30+0200", "27 02:30+0200"]),
        ("30 0 * * *", "America/Havana", "2024-03-09", ["09 00:30-0500", "10 01:00-0400"]),
        ("30 0 * * *", "America/Havana", "2024-11-02", ["02 00:30-0400", "03 00:30-0400"]),
        ("15 2 * * *", "Australia/Lord_Howe", "2024-10-05", ["05 02:15+1030", "06 02:30+1100"]),
        ("45 1 * * *", "Australia/Lord_Howe", "2024-04-06", ["06 01:45+1100", "07 01:45+1100"]),
    ],
)
def test_a_time_of_the_day_fires_once_on_the_day_on_which_the_clocks_change(
    text: str, zone: str, day: str, expected: list[str]
) -> None:
    """The day before is for comparison. A "daily" job must neither be skipped in spring nor doubled in autumn."""
    midnight = datetime.fromisoformat(day).replace(tzinfo=find_zone(zone))

    found = instants(pattern(text), midnight.tzinfo, midnight - MINUTE, midnight + timedelta(days=2) - MINUTE)

    assert expected == [f"{slot.astimezone(midnight.tzinfo):%d %H:%M%z}" for slot in found]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0,30 2 * * *", ["31 03:00+0200"]),
        ("*/20 2-3 * * *", ["31 03:00+0200", "31 03:20+0200", "31 03:40+0200"]),
        ("0 1-4 * * *", ["31 01:00+0100", "31 03:00+0200", "31 04:00+0200"]),
    ],
)
def test_the_times_of_a_gap_fall_together(text: str, expected: list[str]) -> None:
    """Together with a time that is due at that minute anyway they give one job, not one for each missing time."""
    assert expected == due(text, "Europe/Berlin", "2024-03-30 23:00", "2024-03-31 21:59")


@pytest.mark.parametrize(
    ("text", "hours"),
    [("*/5 * * * *", 12), ("0 * * * *", 1), ("* * * * *", 60), ("7,37 0-23 * * *", 2)],
)
@pytest.mark.parametrize("day", ["2024-03-31", "2024-10-27"])
def test_a_rhythm_continues_as_time_passes(text: str, hours: int, day: str) -> None:
    """Every five minutes means that: no pause of an hour in autumn, no burst in spring."""
    after = utc(day) - MINUTE

    found = list(instants(pattern(text), find_zone("Europe/Berlin"), after, after + timedelta(hours=6)))

    assert 6 * hours == len(found)


@pytest.mark.parametrize(
    ("day", "expected"), [("2024-03-31", 0), ("2024-10-27", 120), ("2024-10-28", 60)], ids=["gap", "fold", "plain"]
)
def test_each_minute_of_an_hour_is_each_existing_minute(day: str, expected: int) -> None:
    """`* 2 * * *`: the hour does not exist, or lasts two."""
    start = utc(day) - MINUTE

    found = instants(pattern("* 2 * * *"), find_zone("Europe/Berlin"), start, start + timedelta(hours=6))

    assert expected == len(list(found))


def test_a_rhythm_follows_a_shift_of_half_an_hour() -> None:
    """On Lord Howe the shift is half an hour, but the wall clock still shows the full hour."""
    found = due("0 * * * *", "Australia/Lord_Howe", "2024-04-06 12:00", "2024-04-06 18:00")

    expected = ["07 00:00+1100", "07 01:00+1100", "07 02:00+1030", "07 03:00+1030", "07 04:00+1030"]

    assert expected == found


def test_a_day_that_a_zone_left_out_is_made_up_at_its_end() -> None:
    """Samoa had no 30 December 2011."""
    found = due("0 8 * * *", "Pacific/Apia", "2011-12-28 20:00", "2012-01-01 00:00")

    assert ["29 08:00-1000", "31 00:00+1400", "31 08:00+1400", "01 08:00+1400"] == found


def by_hand(text: str, zone: str, after: datetime, until: datetime) -> list[datetime]:
    """A rhythm, minute by minute."""
    times, found = pattern(text), find_zone(zone)
    minutes = (after + MINUTE * number for number in range(1, (until - after) // MINUTE + 1))
    return [minute for minute in minutes if includes(times, minute.astimezone(found))]


RHYTHMS = ["*/7 * * * *", "* 0-2 * * *", "5,59 * 27-31 3,10 *", "* 2 * * 0", "0 * 1 11 6"]
STARTS = [
    utc(day)
    for day in (
        "2024-03-30",
        "2024-10-26",
        "2024-03-09",
        "2024-11-02",
        "2024-10-05",
        "2024-04-06",
        "2010-11-06",
        "2024-07-01",
    )
]


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("text", RHYTHMS)
def test_a_rhythm_is_each_minute_whose_digest_matches(text: str, zone: str) -> None:
    """The search by hours and days finds what a scan of all minutes finds, around each change of the clocks."""
    for start in STARTS:
        until = start + timedelta(days=2, hours=12)

        assert by_hand(text, zone, start, until) == list(instants(pattern(text), find_zone(zone), start, until))


@given(
    st.sampled_from(["30 2 * * *", "*/20 0-3 * * *", "*/15 * * * *", "0 12 * * 1", "* 1 * * *", "17 23 27 * *"]),
    st.sampled_from(ZONES),
    st.sampled_from(STARTS),
    st.lists(st.integers(0, 5 * 1440), min_size=1, max_size=5).map(sorted),
)
def test_an_interval_has_the_slots_of_its_parts(text: str, zone: str, start: datetime, cuts: list[int]) -> None:
    """A worker computes minute by minute, and over days after an outage: both must give the same slots."""
    points = [start, *(start + MINUTE * cut for cut in cuts), start + timedelta(days=6)]
    found = find_zone(zone)

    whole = list(instants(pattern(text), found, points[0], points[-1]))
    parts = [slot for after, until in pairwise(points) for slot in instants(pattern(text), found, after, until)]

    assert whole == parts


@given(st.sampled_from(ZONES[1:]), st.integers(0, 23), st.integers(0, 59), st.integers(2001, 2035))
def test_a_daily_item_fires_once_on_each_day_of_a_year(zone: str, hour: int, minute: int, year: int) -> None:
    """For every time and zone the slots have each date of the calendar once."""
    found = find_zone(zone)
    start, end = (datetime(number, 1, 1, tzinfo=found) for number in (year, year + 1))

    slots = instants(pattern(f"{minute} {hour} * * *"), found, start - MINUTE, end - MINUTE)

    assert [start.date() + timedelta(number) for number in range((end.date() - start.date()).days)] == [
        slot.astimezone(found).date() for slot in slots
    ]


def on_minute_three(minute: TimeDigest) -> bool:
    """A function instead of an expression."""
    return minute.minute == 3 and minute.hour % 2 == 0


def test_a_function_is_asked_about_each_minute_of_its_zone() -> None:
    """It gets the digest of the local time once a minute: half past in Kolkata."""
    zone = find_zone("Asia/Kolkata")

    found = [
        f"{slot:%H:%M}" for slot in instants(on_minute_three, zone, utc("2024-05-01 00:00"), utc("2024-05-01 06:00"))
    ]

    assert ["00:33", "02:33", "04:33"] == found


@pytest.mark.parametrize("wrong", ["after", "until"])
def test_a_time_without_a_zone_is_refused(wrong: str) -> None:
    """It would be read as the local time of the machine."""
    times = {"after": utc("2024-01-01"), "until": utc("2024-01-02")}
    times[wrong] = times[wrong].replace(tzinfo=None)

    with pytest.raises(ValueError, match="an interval needs times with a zone"):
        next(instants(pattern("* * * * *"), UTC, **times))


@pytest.mark.parametrize("zone", ["UTC", "America/Havana"])
@pytest.mark.parametrize("text", ["0 0 29 2 *", "* 2 29 2 *", "59 23 31 12 *", "* * 1 1 *"])
def test_a_rare_item_is_found_without_looking_at_each_minute(
    text: str, zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scan of eight years would ask four million times, in the event loop of the worker."""
    asked = 0
    holds = Times.holds

    def counting(self: Times, day: date) -> bool:
        nonlocal asked
        asked += 1
        return holds(self, day)

    monkeypatch.setattr(Times, "holds", counting)

    next(instants(pattern(text), find_zone(zone), utc("2097-03-02"), utc("2105-01-01")))

    assert asked < 2000
