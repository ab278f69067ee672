"""Cron expressions: accepted syntax, error messages, and the minutes that they match."""

from datetime import datetime, timedelta
from itertools import pairwise

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from asyncq.domain.cron.expression import MAX_EXPRESSION, Dialect, expand
from asyncq.domain.errors import InvalidCrontab
from tests.support.cron_expressions import EXTENDED, GRAPHILE, NEVER, fits, includes

ACCEPTED = [text for text, known in GRAPHILE.items() if known and text not in NEVER]
MINUTES = {*range(60)}


def is_accepted(text: str, dialect: Dialect) -> bool:
    """Whether an expression can be parsed."""
    try:
        expand(text, dialect, "x")
    except InvalidCrontab:
        return False
    return True


def refusal(text: str, dialect: Dialect = "crontab") -> list[tuple[int, str]]:
    """The columns and sentences with which an expression is refused."""
    with pytest.raises(InvalidCrontab) as caught:
        expand(text, dialect, "x")
    return [(fault.column, fault.said) for fault in caught.value.problems]


def test_the_golden_table_is_whole() -> None:
    """Each line was tested against the systems that it names."""
    assert 74 == len(GRAPHILE)
    assert set() == (EXTENDED | NEVER) - GRAPHILE.keys()


@pytest.mark.parametrize("text", GRAPHILE, ids=ascii)
def test_the_crontab_dialect_is_that_of_graphile_worker_without_expressions_that_never_fire(text: str) -> None:
    """A crontab has the same meaning in both, as far as it works in both."""
    assert (GRAPHILE[text] and text not in NEVER) == is_accepted(text, "crontab")


@pytest.mark.parametrize("text", GRAPHILE, ids=ascii)
def test_the_extended_dialect_has_names_steps_in_ranges_nicknames_and_h_beyond(text: str) -> None:
    """Other syntax of croniter is refused: seconds, L, W, #, ? and ranges that wrap."""
    assert (is_accepted(text, "crontab") or text in EXTENDED) == is_accepted(text, "extended")


@pytest.mark.parametrize("text", ACCEPTED)
def test_the_dialects_mean_the_same(text: str) -> None:
    """The extended one only adds."""
    assert expand(text, "crontab", "x") == expand(text, "extended", "x")


def test_every_value_of_every_field_fits_into_an_expression() -> None:
    """The limit refuses no valid minute."""
    ranges = (range(60), range(24), range(1, 32), range(1, 13), range(7))
    text = " ".join(",".join(map(str, values)) for values in ranges)

    assert expand("* * * * *", "crontab", "x") == expand(text, "crontab", "x")
    assert len(text) < MAX_EXPRESSION


@pytest.mark.parametrize("text", ["1," * 500_000 + "1 * * * *", "x" * 1001, " " * 1001, "* " * 501], ids=str.__len__)
def test_an_expression_above_the_limit_is_refused_before_it_is_read(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a million minutes would hold the event loop of each worker that reads the stored item."""
    monkeypatch.setattr("asyncq.domain.cron.expression._WORD", None)

    said = f"the expression is {len(text)} characters long, at most 1000 are allowed"

    assert [(1, said)] == refusal(text)


def test_an_expression_is_five_sets() -> None:
    """A field without a restriction is a full set. Sunday is 0, however it was written."""
    times = expand("5-7,*/30 * 31 */6 7,1", "crontab", "x")

    assert ({0, 5, 6, 7, 30}, {*range(24)}, {31}, {1, 7}, {0, 1}) == msgspec.structs.astuple(times)
    assert {*range(7)} == expand("* * * * *,7", "crontab", "x").dows


@pytest.mark.parametrize("text", ACCEPTED)
def test_an_accepted_expression_matches_its_minutes(text: str) -> None:
    """Sample minutes of four years are compared with a simple matcher that parses the text each time."""
    times = expand(text, "crontab", "x")
    start = datetime(2024, 1, 1)  # noqa: DTZ001 - a clock on the wall
    moments = [start + timedelta(days=day, minutes=37 * day % 1440) for day in range(4 * 366)]
    moments += [moment.replace(hour=0, minute=0) for moment in moments]

    wrong = [at for at in moments if includes(times, at) != fits(text, at.date(), at.hour, at.minute)]

    assert [] == wrong


def elements(low: int, high: int) -> st.SearchStrategy[str]:
    """The elements that a cron field may consist of."""
    value = st.integers(low, high)
    ranges = st.tuples(value, value).filter(lambda pair: pair[0] < pair[1]).map(lambda pair: f"{pair[0]}-{pair[1]}")
    stars = st.one_of(st.just("*"), st.integers(1, 2 * high).map(lambda step: f"*/{step}"))
    return st.lists(st.one_of(value.map(str), ranges, stars), min_size=1, max_size=3).map(",".join)


EXPRESSIONS = st.tuples(elements(0, 59), elements(0, 23), elements(1, 31), elements(1, 12), elements(0, 7)).map(
    " ".join
)


def matches(text: str, at: datetime) -> bool:
    """Whether a valid expression, which may never fire, matches a minute."""
    try:
        return includes(expand(text, "crontab", "x"), at)
    except InvalidCrontab as bad:
        if "never fires" in str(bad):
            return False
        raise


@given(EXPRESSIONS, st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1)))  # noqa: DTZ001
@example("0 0 1-31 * 1", datetime(2024, 5, 6))  # noqa: DTZ001
@example("0 0 1 * 0-6", datetime(2024, 5, 1))  # noqa: DTZ001
@example("0 0 1 * 1-7", datetime(2024, 5, 5))  # noqa: DTZ001
@example("0 0 1 * *,3", datetime(2024, 5, 5))  # noqa: DTZ001
@example("0 0 * * 7", datetime(2024, 5, 5))  # noqa: DTZ001
def test_any_expression_matches_as_the_matcher_by_hand_does(text: str, at: datetime) -> None:
    """croniter's own matcher differs: it treats `1-31` as a restriction.

    An expression that never fires matches nothing.
    """
    assert fits(text, at.date(), at.hour, at.minute) == matches(text, at)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("0 0 * JAN,feb *", "0 0 * 1,2 *"),
        ("0 0 * mar-dec/3 *", "0 0 * 3,6,9,12 *"),
        ("0 0 * * mon-fri", "0 0 * * 1-5"),
        ("0 0 * * sat-sun", "0 0 * * 0,6"),
        ("0 0 * * sun-sat", "0 0 * * *"),
        ("0 0 * * Sun,3", "0 0 * * 0,3"),
        ("1-30/5 8-18/2 * * *", "1,6,11,16,21,26 8,10,12,14,16,18 * * *"),
        ("0-4/90 * * * *", "0 * * * *"),
        ("@hourly", "0 * * * *"),
        (" @daily\t", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@weekly", "0 0 * * 0"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
    ],
)
def test_an_extended_expression_is_short_for_a_plain_one(text: str, same: str) -> None:
    """It has names, steps inside of ranges and nicknames. A Sunday at the end of a range is the 7."""
    assert expand(same, "crontab", "x") == expand(text, "extended", "x")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("H H * * *", ({42}, {13})),
        ("H(0-29)/10 H(1-5) * * *", ({2, 12, 22}, {3})),
        ("H/15 * * * *", ({12, 27, 42, 57}, {*range(24)})),
        ("H/90 * * * *", ({42}, {*range(24)})),
    ],
)
def test_h_is_a_value_that_the_identifier_decides(text: str, expected: tuple[set[int], set[int]]) -> None:
    """Other values after an upgrade would move all spread jobs."""
    times = expand(text, "extended", "send_email")

    assert expected == (times.minutes, times.hours)


def test_h_spreads_the_identifiers_evenly() -> None:
    """A hundred items that all fire at 00:00 would be a thundering herd."""
    drawn = [next(iter(expand("H * * * *", "extended", f"item_{number}").minutes)) for number in range(600)]
    counts = [drawn.count(minute) for minute in MINUTES]

    assert MINUTES == {*drawn}
    assert max(counts) < 30


def test_an_h_for_a_day_is_one_that_each_month_has() -> None:
    """A value of all 31 would skip some months, or never fire."""
    days = {day for number in range(300) for day in expand("0 0 H * *", "extended", str(number)).dates}
    dows = {day for number in range(300) for day in expand("0 0 * * H", "extended", str(number)).dows}

    assert ({*range(1, 29)}, {*range(7)}) == (days, dows)


@given(st.text("ab", max_size=8), st.integers(1, 70), st.integers(0, 58), st.integers(1, 59))
def test_h_stays_within_its_range(identifier: str, step: int, low: int, width: int) -> None:
    """The range holds for every step."""
    high = min(59, low + width)

    minutes = sorted(expand(f"H({low}-{high})/{step} * * * *", "extended", identifier).minutes)

    assert low <= minutes[0]
    assert minutes[-1] <= high
    assert {step} >= {after - before for before, after in pairwise(minutes)}


FORMS = "expected '*', '*/n', 0 to 59, a range 'a-b', or a list of these without blanks"
EXTENDED_FORMS = (
    "expected '*', '*/n', 0 to 59, a range 'a-b' or 'a-b/n', 'H', 'H(a-b)', 'H/n', or a list of these without blanks"
)
NICKNAMES = "@hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually"
FIVE = "minute, hour, day of the month, month, day of the week"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("60 * * * *", [(1, "minute is 60, expected 0 to 59")]),
        ("*  24 * * *", [(4, "hour is 24, expected 0 to 23")]),
        ("0 0 0 * *", [(5, "day of the month is 0, expected 1 to 31")]),
        ("0 0 * 13 *", [(7, "month is 13, expected 1 to 12")]),
        ("0 0 * * 1,5-8", [(11, "day of the week is 8, expected 0 to 7")]),
        ("5-5 * * * *", [(1, "minute has the range '5-5' of one value, expected two different ones, or 5 alone")]),
        ("50-10 * * * *", [(1, "minute has the range '50-10', which goes backwards, expected the lower value first")]),
        ("*/0 * * * *", [(1, "minute has the step 0, expected 1 or more")]),
        ("1, * * * *", [(3, f"minute has an empty element, {FORMS}")]),
        ("1.5 * * * *", [(1, f"minute is '1.5', {FORMS}")]),
        ("1-30/5 * * * *", [(1, f"minute is '1-30/5', {FORMS}; the dialect 'extended' has more")]),
        ("H * * * *", [(1, f"minute is 'H', {FORMS}; the dialect 'extended' has more")]),
        ("1234567890 * * * *", [(1, f"minute is '1234567890', {FORMS}")]),
        ("", [(1, f"the minute is missing, expected five fields: {FIVE}")]),
        ("* * * *", [(8, f"the day of the week is missing, expected five fields: {FIVE}")]),
        (
            "* * * * * *",
            [(11, f"there are 6 fields, expected five: {FIVE}; there is none for seconds or years")],
        ),
        ("0 0 31 2,4 *", [(5, "'0 0 31 2,4 *' never fires: no month in it has such a day")]),
        ("@daily", [(1, "'@daily' is not part of the dialect 'crontab', expected five fields")]),
        (
            "60 24 * * 9",
            [
                (1, "minute is 60, expected 0 to 59"),
                (4, "hour is 24, expected 0 to 23"),
                (11, "day of the week is 9, expected 0 to 7"),
            ],
        ),
    ],
)
def test_each_fault_is_reported_with_its_column_and_the_expected_value(
    text: str, expected: list[tuple[int, str]]
) -> None:
    """All faults are reported at once, so that one start of the worker shows them all."""
    assert expected == refusal(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5/15 * * * *", [(1, f"minute is '5/15', {EXTENDED_FORMS}")]),
        ("jan * * * *", [(1, "minute is 'jan', expected 0 to 59")]),
        (
            "0 0 * mai *",
            [(7, "month is 'mai', expected one of jan, feb, mar, apr, may, jun, jul, aug, sep, oct, nov, dec")],
        ),
        (
            "H(5-5) * * * *",
            [(1, "minute has the range 'H(5-5)' of one value, expected two different ones, or 5 alone")],
        ),
        ("H/0 * * * *", [(1, "minute has the step 0, expected 1 or more")]),
        ("H(0-99) * * * *", [(1, "minute is 99, expected 0 to 59")]),
        (
            "@reboot",
            [(1, f"'@reboot' is unknown, expected five fields or one of {NICKNAMES}")],
        ),
        ("@daily 5", [(8, "'5' follows @daily, expected nothing")]),
    ],
)
def test_faults_of_the_extended_dialect_are_reported_too(text: str, expected: list[tuple[int, str]]) -> None:
    """The messages name the forms of this dialect."""
    assert expected == refusal(text, "extended")


def test_the_error_for_a_name_of_a_wrong_length_shows_a_valid_name() -> None:
    """`mo` is German, and cron's names are English."""
    assert "a name such as sun" in refusal("0 0 * * mo", "extended")[0][1]


@pytest.mark.parametrize("text", ["0 0 30 2 0-6", "0 0 31 4,6,9,11 *", "0 0 31 2 1-7"])
def test_an_expression_that_can_never_fire_is_refused(text: str) -> None:
    """croniter lets these pass when the days of the week are written out: they restrict nothing."""
    assert "never fires" in refusal(text)[0][1]


@pytest.mark.parametrize("text", ["0 0 30 2 1", "0 0 29 2 *", "0 0 30,31 2,3 *"])
def test_an_expression_that_fires_rarely_is_accepted(text: str) -> None:
    """A weekday may match, 29 February recurs, or one of the months has the day."""
    assert expand(text, "crontab", "x").can_fire
