"""Cron expressions -> `Times`. This module decides which expressions are accepted; croniter only expands them.

crontab    exactly the five fields of graphile-worker: `*`, `*/n`, `a`, `a-b`, and lists of these
extended   also names (jan, mon), `a-b/n`, `@daily` and the like, and `H`: a value that depends on the identifier
"""

import hashlib
import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from asyncq.domain.cron.times import Times
from asyncq.domain.errors import CrontabProblem, InvalidCrontab

Dialect = Literal["crontab", "extended"]
DIALECTS: tuple[Dialect, ...] = ("crontab", "extended")

# All values of all fields, listed one by one, are 356 characters; 1 MB would block a worker for half a minute.
MAX_EXPRESSION = 1000


class _Field(NamedTuple):
    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()


_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of the month", 1, 31),
    _Field("month", 1, 12, _MONTHS),
    # Sunday has two numbers: 0 and 7.
    _Field("day of the week", 0, 7, _DAYS),
)
_DOW = _FIELDS[4]
# The highest value of H, if it is below that of the field: each month has these days, each week these.
_HIGH_OF_H = {"day of the month": 28, "day of the week": 6}

_NICKNAMES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}

_WORD = re.compile(r"[^ \t]+")
_NUMBER = "[0-9]{1,9}"
_VALUE = f"{_NUMBER}|[A-Za-z]{{3}}"
_STEPS = re.compile(rf"\*(?:/({_NUMBER}))?")
_RANGE = re.compile(rf"({_VALUE})(?:-({_VALUE})(?:/({_NUMBER}))?)?")
_SPREAD = re.compile(rf"H(?:\(({_NUMBER})-({_NUMBER})\))?(?:/({_NUMBER}))?")


class _Refused(Exception):
    """The reason why an element of a field is refused."""


def expand(text: str, dialect: Dialect, identifier: str) -> Times:
    """The minutes of an expression; blanks and tabs may be around its fields, and `H` depends on the identifier.

    InvalidCrontab has all faults; an expression that never fires is one.
    """
    if len(text) > MAX_EXPRESSION:
        said = f"the expression is {len(text)} characters long, at most {MAX_EXPRESSION} are allowed"
        raise InvalidCrontab([_fault(1, said)])
    words = list(_WORD.finditer(text))
    nickname = words[0][0] if words else ""
    if nickname.startswith("@"):
        return _expand(_NICKNAMES[_check_nickname(nickname, words, dialect)].split())
    if len(words) != len(_FIELDS):
        raise InvalidCrontab([_wrong_count(words)])
    faults: list[CrontabProblem] = []
    fields: list[str] = []
    for field, word in zip(_FIELDS, words, strict=True):
        elements: list[str] = []
        for column, element in _elements(word):
            try:
                elements.append(_element(field, element, dialect, identifier))
            except _Refused as refused:
                faults.append(_fault(column, f"{field.name} {refused}"))
        fields.append(",".join(elements))
    if faults:
        raise InvalidCrontab(faults)
    times = _expand(fields)
    if not times.can_fire:
        said = f"{text.strip()!r} never fires: no month in it has such a day"
        raise InvalidCrontab([_fault(words[2].start() + 1, said)])
    return times


def _fault(column: int, said: str) -> CrontabProblem:
    return CrontabProblem(said, "match", column=column)


def _expand(fields: list[str]) -> Times:
    """The sets of checked fields."""
    # The import takes a tenth of a second, and only programs with recurring items need it.
    from croniter import croniter

    expanded, _ = croniter.expand(" ".join(fields))
    sets = (
        # croniter writes a field with all values as a star, alone or in a list.
        frozenset(range(field.low, field.high + (field is not _DOW)) if "*" in values else map(int, values))
        for field, values in zip(_FIELDS, expanded, strict=True)
    )
    return Times(*sets)


def _check_nickname(nickname: str, words: list[re.Match[str]], dialect: Dialect) -> str:
    if dialect == "crontab":
        said = f"{nickname!r} is not part of the dialect 'crontab', expected five fields"
    elif nickname not in _NICKNAMES:
        said = f"{nickname!r} is unknown, expected five fields or one of {', '.join(_NICKNAMES)}"
    elif len(words) > 1:
        raise InvalidCrontab([_fault(words[1].start() + 1, f"{words[1][0]!r} follows {nickname}, expected nothing")])
    else:
        return nickname
    raise InvalidCrontab([_fault(words[0].start() + 1, said)])


def _wrong_count(words: list[re.Match[str]]) -> CrontabProblem:
    names = ", ".join(field.name for field in _FIELDS)
    if len(words) > len(_FIELDS):
        said = f"there are {len(words)} fields, expected five: {names}; there is none for seconds or years"
        return _fault(words[len(_FIELDS)].start() + 1, said)
    missing = _FIELDS[len(words)].name
    column = words[-1].end() + 1 if words else 1
    return _fault(column, f"the {missing} is missing, expected five fields: {names}")


def _elements(word: re.Match[str]) -> Iterator[tuple[int, str]]:
    """Yield the elements of a list, each with its column."""
    column = word.start() + 1
    for element in word[0].split(","):
        yield column, element
        column += len(element) + 1


def _element(field: _Field, element: str, dialect: Dialect, identifier: str) -> str:
    """Write an element in digits, as croniter must read it."""
    extended = dialect == "extended"
    if found := _STEPS.fullmatch(element):
        _check_step(found[1])
        return element
    if (found := _RANGE.fullmatch(element)) and (extended or _is_plain(found)):
        return _range(field, found)
    if extended and (found := _SPREAD.fullmatch(element)):
        return _spread(field, found, identifier)
    raise _Refused(_no_element(field, element, extended=extended))


def _is_plain(found: re.Match[str]) -> bool:
    """Whether the element has neither names nor a step."""
    return found[3] is None and all(value.isdigit() for value in found.groups("0"))


def _range(field: _Field, found: re.Match[str]) -> str:
    low = _number(field, found[1])
    if found[2] is None:
        return str(low)
    high = _number(field, found[2])
    if high == 0 and field is _DOW and not found[2].isdigit():
        # Sunday as the end of `sat-sun`.
        high = 7
    _check_order(low, high, found[0])
    _check_step(found[3])
    return f"{low}-{high}" + (f"/{found[3]}" if found[3] else "")


def _spread(field: _Field, found: re.Match[str], identifier: str) -> str:
    """The value of an `H`: always the same for an identifier, and each value equally often."""
    low, high = field.low, _HIGH_OF_H.get(field.name, field.high)
    if found[1]:
        low, high = _number(field, found[1]), _number(field, found[2])
        _check_order(low, high, found[0])
    _check_step(found[3])
    drawn = int.from_bytes(hashlib.sha256(f"{field.name} {identifier}".encode()).digest()[:8])
    if not found[3]:
        return str(low + drawn % (high - low + 1))
    first = low + drawn % min(int(found[3]), high - low + 1)
    return str(first) if first == high else f"{first}-{high}/{found[3]}"


def _number(field: _Field, value: str) -> int:
    if value.isdigit():
        number = int(value)
        if not field.low <= number <= field.high:
            raise _Refused(f"is {number}, expected {field.low} to {field.high}")
        return number
    if value.lower() not in field.names:
        expected = f"one of {', '.join(field.names)}" if field.names else f"{field.low} to {field.high}"
        raise _Refused(f"is {value!r}, expected {expected}")
    return field.names.index(value.lower()) + field.low


def _check_order(low: int, high: int, element: str) -> None:
    if low == high:
        raise _Refused(f"has the range {element!r} of one value, expected two different ones, or {low} alone")
    if low > high:
        raise _Refused(f"has the range {element!r}, which goes backwards, expected the lower value first")


def _check_step(step: str | None) -> None:
    if step is not None and int(step) == 0:
        raise _Refused("has the step 0, expected 1 or more")


def _no_element(field: _Field, element: str, *, extended: bool) -> str:
    forms = ["'*'", "'*/n'", f"{field.low} to {field.high}", "a range 'a-b'"]
    if extended:
        forms[3:] = ["a range 'a-b' or 'a-b/n'", "'H', 'H(a-b)', 'H/n'"]
        if field.names:
            forms.append(f"a name such as {field.names[0]}")
    got = f"is {element!r}" if element else "has an empty element"
    hint = ""
    if not extended and (_RANGE.fullmatch(element) or _SPREAD.fullmatch(element)):
        hint = "; the dialect 'extended' has more"
    return f"{got}, expected {', '.join(forms)}, or a list of these without blanks{hint}"
