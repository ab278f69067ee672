"""Time phrases, such as `4w3d2h1m`."""

from datetime import timedelta

import pytest

from asyncq.domain.duration import parse_time_phrase


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("4w3d2h1m", timedelta(minutes=44_761)),
        ("5d", timedelta(days=5)),
        ("3h", timedelta(hours=3)),
        ("90s", timedelta(seconds=90)),
        ("0s", timedelta(0)),
        ("1m2w", timedelta(minutes=1, weeks=2)),
        ("1h1h", timedelta(hours=2)),
        ("007d", timedelta(days=7)),
        ("36525d", timedelta(days=36_525)),
    ],
)
def test_a_time_phrase_adds_up(text: str, expected: timedelta) -> None:
    """The order of the units is free, and repeated units add up."""
    assert expected == parse_time_phrase(text)


@pytest.mark.parametrize(
    "text", ["", "5", "d", "5 d", "5d ", "-5d", "1.5h", "5D", "5y", "5d\n", "٥d", "5dd"], ids=ascii
)
def test_an_invalid_time_phrase_is_refused(text: str) -> None:
    """A misread period would fill in the jobs of a month."""
    with pytest.raises(ValueError, match=r"is not a time phrase, expected numbers with a unit s, m, h, d or w"):
        parse_time_phrase(text)


@pytest.mark.parametrize("text", ["36525d1s", "999999999999w", "9w" * 2000])
def test_a_phrase_longer_than_a_century_is_refused(text: str) -> None:
    """A timedelta would overflow without a clear message."""
    with pytest.raises(ValueError, match=r"is longer than 36525 days \(100 years\)"):
        parse_time_phrase(text)
