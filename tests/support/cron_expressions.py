"""The golden table of expressions, and a matcher as simple as can be: it reads the text again for each minute."""

from datetime import date, datetime

from asyncq.domain.cron.times import Times

# expression -> whether graphile-worker's grammar has it; checked against graphile-worker 0.17.3.
GRAPHILE: dict[str, bool] = {
    "* * * * *": True,
    "*/15 * * * *": True,
    "0 4 * * *": True,
    "30 4 * * 1": True,
    "30 4,10-15 * * 1": True,
    "0 */4 * * *": True,
    "0 0 1 * *": True,
    "0 0 31 * *": True,
    "0 0 31 2 *": True,
    "0 0 30 2 *": True,
    "0 0 29 2 *": True,
    "60 * * * *": False,
    "* 24 * * *": False,
    "0 0 0 * *": False,
    "0 0 32 * *": False,
    "0 0 * 0 *": False,
    "0 0 * 13 *": False,
    "0 0 * * 7": True,
    "0 0 * * 8": False,
    "0 0 * * 5-7": True,
    "0 0 * * 0-7": True,
    "0 0 * * 6-0": False,
    "0 0 * * 1-1": False,
    "5-5 * * * *": False,
    "50-10 * * * *": False,
    "*/0 * * * *": False,
    "*/60 * * * *": True,
    "*/90 * * * *": True,
    "* */24 * * *": True,
    "1-30/5 * * * *": False,
    "5/15 * * * *": False,
    "59/15 * * * *": False,
    "*/5,7 * * * *": True,
    "*,5 * * * *": True,
    "1,1,1 * * * *": True,
    "01 02 03 04 05": True,
    "0 0 * jan *": False,
    "0 0 * * mon-fri": False,
    "0 0 * * SUN": False,
    "0 0 * * 1#2": False,
    "0 0 * * L5": False,
    "0 0 l * *": False,
    "0 0 15W * *": False,
    "0 0 ? * *": False,
    "@hourly": False,
    "@daily": False,
    "@reboot": False,
    "@every 5m": False,
    "H * * * *": False,
    "R * * * *": False,
    "* * * * * *": False,
    "* * * * * * 2026": False,
    "* * * *": False,
    "*  *  *  * *": True,
    # graphile-worker trims the line before.
    "\t* * * * *": True,
    "*,* * * * *": True,
    ", * * * *": False,
    "1, * * * *": False,
    "-1 * * * *": False,
    "*-5 * * * *": False,
    "*/-5 * * * *": False,
    "*/5/2 * * * *": False,
    "1.5 * * * *": False,
    "0 0 1-31 * 1": True,
    "0 0 */2 * 1": True,
    "0 0 1 * 0-6": True,
    "0 0 1,15 * 5": True,
    "٥ * * * *": False,
    "0 0 * * 1-5,7": True,
    "0 0 1 * */2": True,
    "0 0 * */5 *": True,
    "0 0 */40 * *": True,
    "0 0-23 * * *": True,
    "0/1 * * * *": False,
}
NEVER = {"0 0 31 2 *", "0 0 30 2 *"}
# Further expressions of the extended dialect.
EXTENDED = {"1-30/5 * * * *", "0 0 * jan *", "0 0 * * mon-fri", "0 0 * * SUN", "@hourly", "@daily", "H * * * *"}

# The ranges of stars. Sunday may also be 7.
LIMITS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))


def fits(expression: str, day: date, hour: int, minute: int) -> bool:
    """Whether a valid expression of the dialect `crontab` matches a minute."""
    dow = day.isoweekday() % 7
    minutes, hours, dates, months, dows = (
        values(field, low, high) for field, (low, high) in zip(expression.split(), LIMITS, strict=True)
    )
    by_date, by_dow = day.day in dates, dow in dows or dow + 7 in dows
    all_dows = {value % 7 for value in dows} == {*range(7)}
    is_day = by_date or by_dow if dates != {*range(1, 32)} and not all_dows else by_date and by_dow
    return minute in minutes and hour in hours and day.month in months and is_day


def includes(times: Times, at: datetime) -> bool:
    """Whether the sets of an expression hold a minute of the clock on the wall."""
    return at.minute in times.minutes and at.hour in times.hours and times.holds(at.date())


def values(field: str, low: int, high: int) -> set[int]:
    """The values of a field."""
    found: set[int] = set()
    for element in field.split(","):
        if element.startswith("*"):
            found |= {*range(low, high + 1, int(element[2:] or 1))}
        else:
            first, _, last = element.partition("-")
            found |= {*range(int(first), int(last or first) + 1)}
    return found
