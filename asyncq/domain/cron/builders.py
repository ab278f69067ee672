"""Cron expressions by name: each function returns the five fields, for use wherever an expression is expected."""

from typing import Literal, NoReturn, get_args

from asyncq.domain.errors import CrontabProblem, InvalidCrontab

Weekday = Literal["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"]
_WEEKDAYS: tuple[str, ...] = get_args(Weekday)


def every_minute() -> str:
    """Each minute.

    Returns:
        `* * * * *`.
    """
    return "* * * * *"


def every(*, minutes: int | None = None, hours: int | None = None) -> str:
    """Every so many minutes, or hours.

    Args:
        minutes: A divisor of 60, below 60, because cron starts again in each hour.
        hours: A divisor of 24, below 24, because cron starts again on each day.

    Returns:
        `*/5 * * * *`, or `0 */6 * * *`.

    Raises:
        InvalidCrontab: The number is not such a divisor, or not exactly one of the two was given.
    """
    if minutes is not None and hours is None:
        _check_divides("minutes", minutes, 60)
        return f"*/{minutes} * * * *"
    if hours is not None and minutes is None:
        _check_divides("hours", hours, 24)
        return f"0 */{hours} * * *"
    return _refuse("every takes either minutes or hours")


def hourly(*, minute: int = 0) -> str:
    """Once an hour.

    Args:
        minute: 0 by default, to 59.

    Returns:
        `30 * * * *`.

    Raises:
        InvalidCrontab: The minute does not exist.
    """
    _check("minute", minute, 0, 59)
    return f"{minute} * * * *"


def daily(*, hour: int = 0, minute: int = 0) -> str:
    """Once a day.

    Args:
        hour: 0 by default, to 23.
        minute: 0 by default, to 59.

    Returns:
        `30 4 * * *`.

    Raises:
        InvalidCrontab: The time does not exist.
    """
    return f"{_time(hour, minute)} * * *"


def weekly(weekday: Weekday, *, hour: int = 0, minute: int = 0) -> str:
    """Once a week.

    Args:
        weekday: `sunday` to `saturday`.
        hour: 0 by default, to 23.
        minute: 0 by default, to 59.

    Returns:
        `30 4 * * 1`.

    Raises:
        InvalidCrontab: The day or the time does not exist.
    """
    if weekday not in _WEEKDAYS:
        _refuse(f"weekday is {weekday!r}, expected one of {', '.join(_WEEKDAYS)}")
    return f"{_time(hour, minute)} * * {_WEEKDAYS.index(weekday)}"


def monthly(*, day: int = 1, hour: int = 0, minute: int = 0) -> str:
    """Once a month.

    Args:
        day: 1 by default, to 31; shorter months are skipped.
        hour: 0 by default, to 23.
        minute: 0 by default, to 59.

    Returns:
        `30 4 15 * *`.

    Raises:
        InvalidCrontab: The day or the time does not exist.
    """
    _check("day", day, 1, 31)
    return f"{_time(hour, minute)} {day} * *"


def yearly(*, month: int = 1, day: int = 1, hour: int = 0, minute: int = 0) -> str:
    """Once a year.

    Args:
        month: 1 by default, to 12.
        day: 1 by default, to the last day that the month can have; 29 February is every fourth year.
        hour: 0 by default, to 23.
        minute: 0 by default, to 59.

    Returns:
        `30 4 24 12 *`.

    Raises:
        InvalidCrontab: The day or the time does not exist.
    """
    _check("month", month, 1, 12)
    _check("day", day, 1, 29 if month == 2 else 30 if month in (4, 6, 9, 11) else 31)
    return f"{_time(hour, minute)} {day} {month} *"


def _time(hour: int, minute: int) -> str:
    _check("hour", hour, 0, 23)
    _check("minute", minute, 0, 59)
    return f"{minute} {hour}"


def _check(name: str, value: int, low: int, high: int) -> None:
    if type(value) is not int or not low <= value <= high:
        _refuse(f"{name} is {value!r}, expected {low} to {high}")


def _check_divides(name: str, value: int, whole: int) -> None:
    if type(value) is not int or not 0 < value < whole or whole % value:
        numbers = ", ".join(str(number) for number in range(1, whole) if whole % number == 0)
        _refuse(f"{name} is {value!r}, expected a number that divides {whole}: {numbers}")


def _refuse(said: str) -> NoReturn:
    raise InvalidCrontab([CrontabProblem(said, "match")])
