"""Time zones by name, and when their clocks show a time."""

import sys
import zoneinfo
from collections.abc import Generator
from datetime import UTC, datetime, timedelta

import pytest

from asyncq.domain.cron.zone import find_zone, instant_of


@pytest.fixture
def no_data(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """A machine without time zone data, neither the system's nor the package's."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "tzdata"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "tzdata", None)
    path = zoneinfo.TZPATH
    zoneinfo.ZoneInfo.clear_cache()
    zoneinfo.reset_tzpath(to=())
    yield
    zoneinfo.reset_tzpath(to=path)
    zoneinfo.ZoneInfo.clear_cache()


def instant(wall: str, zone: str) -> str:
    """The instant of a time in a zone, both as text."""
    found = instant_of(datetime.fromisoformat(wall), find_zone(zone))
    return found.isoformat(" ", "minutes")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Europe/Berln", "'Europe/Berln' is not a time zone; did you mean 'Europe/Berlin'?"),
        ("Europe", "'Europe' is not a time zone; did you mean"),
        ("", "'' is not a time zone; expected an IANA name such as 'Europe/Berlin'"),
        ("../etc/passwd", "'../etc/passwd' is not a time zone; expected an IANA name"),
        ("/etc/passwd", "'/etc/passwd' is not a time zone; expected an IANA name"),
        ("zone\0", r"'zone\x00' is not a time zone; "),
        ("+02:00", "'+02:00' is not a time zone; expected an IANA name"),
    ],
)
def test_a_zone_that_does_not_exist_is_refused_with_the_nearest_name(name: str, expected: str) -> None:
    """Folders of the data, paths and offsets are no zones."""
    with pytest.raises(ValueError, match="is not a time zone") as caught:
        find_zone(name)

    assert str(caught.value).startswith(expected)


@pytest.mark.usefixtures("no_data")
def test_without_time_zone_data_the_error_says_what_to_install() -> None:
    """A slim container has none. "No such zone" would suggest a typing error."""
    with pytest.raises(ValueError, match="this machine has no time zone data; install the package tzdata"):
        find_zone("Europe/Berlin")


@pytest.mark.usefixtures("no_data")
def test_utc_needs_no_time_zone_data() -> None:
    """It is the default, and must work everywhere."""
    assert UTC is find_zone("UTC")


@pytest.mark.parametrize(
    ("wall", "zone", "expected"),
    [
        ("2024-06-01 02:30", "UTC", "2024-06-01 02:30+00:00"),
        ("2024-06-01 02:30", "Europe/Berlin", "2024-06-01 00:30+00:00"),
        # In the gap, from 02:00 to 03:00: at 03:00.
        ("2024-03-31 02:00", "Europe/Berlin", "2024-03-31 01:00+00:00"),
        ("2024-03-31 02:30", "Europe/Berlin", "2024-03-31 01:00+00:00"),
        ("2024-03-31 02:59", "Europe/Berlin", "2024-03-31 01:00+00:00"),
        ("2024-03-31 03:00", "Europe/Berlin", "2024-03-31 01:00+00:00"),
        # Twice, from 02:00 to 03:00: the first.
        ("2024-10-27 02:30", "Europe/Berlin", "2024-10-27 00:30+00:00"),
        ("2024-10-27 03:00", "Europe/Berlin", "2024-10-27 02:00+00:00"),
        # The gap begins at midnight; and an hour that is part of two days in a row does not.
        ("2024-03-10 00:30", "America/Havana", "2024-03-10 05:00+00:00"),
        ("2024-11-03 00:30", "America/Havana", "2024-11-03 04:30+00:00"),
        # Half an hour.
        ("2024-10-06 02:15", "Australia/Lord_Howe", "2024-10-05 15:30+00:00"),
        ("2024-04-07 01:45", "Australia/Lord_Howe", "2024-04-06 14:45+00:00"),
        # A day that was left out.
        ("2011-12-30 08:00", "Pacific/Apia", "2011-12-30 10:00+00:00"),
        # An offset with seconds: the first whole minute at which the clock shows it.
        ("1890-01-01 00:00", "Europe/Berlin", "1889-12-31 23:07+00:00"),
    ],
)
def test_a_time_in_a_gap_is_the_first_minute_after_it_and_a_repeated_one_is_the_first(
    wall: str, zone: str, expected: str
) -> None:
    """A daily job must neither be left out on one day of the year nor run twice on another."""
    assert expected == instant(wall, zone)


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/Havana", "Australia/Lord_Howe", "America/St_Johns"])
def test_the_instants_of_the_minutes_of_a_year_never_go_back(zone: str) -> None:
    """The search relies on it, even over changes of the clocks."""
    found, minute = find_zone(zone), timedelta(minutes=15)
    walls = (datetime(2010, 1, 1, 0, 1) + number * minute for number in range(366 * 96))  # noqa: DTZ001

    instants = [instant_of(wall, found) for wall in walls]

    assert instants == sorted(instants)
