"""The text of a crontab: `30 4 * * 1 send_email ?fill=2d&max=10 {onboarding: false}`, one item a line.

All problems of a text are found at once, and reported with their lines and columns.
"""

import re
from collections.abc import Iterable
from typing import Any, cast

from asyncq.domain.cron.expression import Dialect
from asyncq.domain.cron.item import CronItem, CronTask, parse_cron_items
from asyncq.domain.cron.options import read_options
from asyncq.domain.cron.times import Matcher
from asyncq.domain.errors import CrontabProblem, InvalidCrontab

Recurrence = str | Matcher

_BLANKS = " \t\v\f"
_WORD = re.compile(f"[^{_BLANKS}]+")
_NEWLINE = re.compile("\r\n|\r|\n")
_TASK = re.compile("[_a-zA-Z][_a-zA-Z0-9:/-]*")
_FIELD = re.compile("[0-9*/,-]+")
_NO_TASK = "-"
# The parser of JSON5 is pure Python: it takes seconds for this size, and minutes for ten times as much.
MAX_JSON5 = 64 * 1024
# The message of the library about an error in JSON5; the text is one line.
_PLACE = re.compile("<string>:1 (.*) at column ([0-9]+)", re.DOTALL)


class _Line:
    """A line, read from left to right. Columns count from 0 inside, and from 1 in the problems."""

    def __init__(self, text: str, number: int | None, owner: str | None) -> None:
        self.text = text.rstrip(_BLANKS)
        self.number = number
        self.owner = owner
        self.problems: list[CrontabProblem] = []
        self.values: dict[str, Any] = {}
        self.columns: dict[str, int] = {}
        self._words = list(_WORD.finditer(self.text))

    def report(self, column: int, said: str, field: str = "") -> None:
        """Remember a problem."""
        self.problems.append(CrontabProblem(said, field, self.owner, self.number, column + 1))

    def read(self, *, with_task: bool) -> None:
        words = [word[0] for word in self._words]
        behind = next((at for at, word in enumerate(words) if word.startswith(("?", "{"))), len(words))
        fields = _count_fields(words[:behind]) if with_task else behind
        start = self._start(0)
        self.columns["match"] = start
        self.values["match"] = self.text[start : self._words[fields - 1].end() if fields else start]
        if with_task:
            self._read_task(fields, behind)
        if behind < len(words) and words[behind].startswith("?"):
            self._read_options(behind)
            behind += 1
        if behind < len(words):
            self._read_payload(behind)

    def _start(self, at: int) -> int:
        """The start of the next word, or the end of the line."""
        return self._words[at].start() if at < len(self._words) else len(self.text)

    def _read_task(self, at: int, end: int) -> None:
        column = self._start(at)
        # For the checks of the rest when it cannot be used.
        self.values["task"] = _NO_TASK
        self.columns["task"] = self.columns["identifier"] = column
        if at == end:
            self.report(column, "the task is missing, expected its name after the five fields", "task")
        elif not _TASK.fullmatch(name := self._words[at][0]):
            hint = "; there is no field for seconds or years" if _FIELD.fullmatch(name) else ""
            said = f"task is {name!r}, expected a letter or _, then letters, digits, _, :, / and -{hint}"
            self.report(column, said, "task")
        else:
            self.values["task"] = name
            if end - at > 1:
                self._refuse(at + 1, end)

    def _read_options(self, at: int) -> None:
        column = self._start(at) + 1
        for option in read_options(self._words[at][0][1:]):
            if option.fault:
                self.report(column + option.column, option.fault, option.field)
            else:
                self.values[option.field] = option.value
                self.columns[option.field] = column + option.column

    def _read_payload(self, at: int) -> None:
        column = self._start(at)
        if not self.text.startswith("{", column):
            self._refuse(at, len(self._words))
            return
        self.columns["payload"] = column
        payload = self.text[column:]
        if (size := len(payload.encode("utf-8", "surrogatepass"))) > MAX_JSON5:
            said = f"payload is {size} bytes of JSON5, at most {MAX_JSON5} are allowed; a CronItem in code takes more"
            self.report(column, said, "payload")
            return
        # Imported here, because it is slow and only needed for a payload.
        import json5

        try:
            self.values["payload"] = json5.loads(payload, allow_duplicate_keys=False)
        except ValueError as error:
            found = _PLACE.fullmatch(str(error))
            said, at = (found[1], int(found[2]) - 1) if found else (str(error), 0)
            self.report(column + at, f"payload is not a JSON5 object: {said}", "payload")
        except RecursionError:
            self.report(column, "payload is nested too deeply", "payload")

    def _refuse(self, at: int, end: int) -> None:
        column = self._start(at)
        rest = self.text[column : self._words[end - 1].end()]
        self.report(column, f"{rest[:40]!r} is not allowed here, expected ?options, a {{payload}}, or nothing")

    def item(self, dialect: Dialect) -> CronItem | None:
        item = None
        try:
            item = CronItem(**self.values, dialect=dialect)
            vars(item)["line"] = self.number
        except InvalidCrontab as invalid:
            for problem in invalid.problems:
                column = self.columns.get(problem.field, self.columns["match"])
                self.report(column + (problem.column or 1) - 1, problem.said, problem.field)
        return None if self.problems else item


def _column(problem: CrontabProblem) -> int:
    return problem.column or 0


def _count_fields(words: list[str]) -> int:
    """How many of the words before the options are fields."""
    if words and words[0].startswith("@"):
        return 1
    if len(words) > 5:
        return 5
    # Too few fields: then the last word is the task, if its form allows it.
    return len(words) - bool(words and _TASK.fullmatch(words[-1]))


def parse_crontab(text: str, *, dialect: Dialect = "crontab", source: str = "") -> tuple[CronItem, ...]:
    """Read the text of a crontab.

    Args:
        text: Lines of five fields, a task's name, and optionally `?options` and a `{payload}` in JSON5, at most 64 KiB.
            Empty lines and lines that begin with `#` are skipped. Options: `id`, `fill` (a time phrase such as
            `4w3d2h1m`), `max`, `queue`, `priority`, `jobKey`, `jobKeyMode`, `tz`, `flags` (with commas between them),
            `overlap`.
        dialect: `crontab` by default, the fields of graphile-worker; `extended` adds names, `a-b/n`, `@daily`, `H`.
        source: The origin of the text, for the error.

    Returns:
        The items, in the order of the lines.

    Raises:
        InvalidCrontab: Lines cannot be read, or two have the same identifier; with all problems.

    Source: the section "Recurring tasks" in the README of graphile-worker.
    """
    problems: list[CrontabProblem] = []
    items: list[CronItem | None] = []
    numbers: dict[str, int] = {}
    for number, content in enumerate(_NEWLINE.split(text.removeprefix("\ufeff")), 1):
        if not content.strip(_BLANKS) or content.lstrip(_BLANKS).startswith("#"):
            continue
        line = _Line(content, number, None)
        line.read(with_task=True)
        items.append(line.item(dialect))
        identifier = line.values.get("identifier", line.values["task"])
        if identifier != _NO_TASK and numbers.setdefault(identifier, number) != number:
            said = f"identifier {identifier!r} is that of line {numbers[identifier]} too; give one of them ?id="
            line.report(line.columns["identifier"], said, "identifier")
        problems.extend(sorted(line.problems, key=_column))
    if problems:
        raise InvalidCrontab(problems, source)
    return tuple(item for item in items if item is not None)


def several(cron: Any) -> tuple[Any, ...]:
    """The items of an argument that is one, several or None; the check of the items reports one that is none."""
    if cron is None:
        return ()
    if isinstance(cron, str) or callable(cron) or not isinstance(cron, Iterable):
        return (cron,)
    return tuple(cast("Iterable[Any]", cron))


def items_of_task(task: CronTask, cron: Recurrence | Iterable[Recurrence] | None) -> tuple[CronItem, ...]:
    """The items of a task, made from `@task(cron=...)`; InvalidCrontab has all problems.

    A text is a line of a crontab without the task (`0 8 * * * ?tz=Europe/Berlin&fill=1d {dry_run: true}`), in the
    extended dialect, with at most 64 KiB of payload. Of several, each but one needs an `id`.
    """
    problems: list[CrontabProblem] = []
    items: list[CronItem] = []
    for recurrence in several(cron):
        try:
            items.append(_item_of_task(task, recurrence))
        except InvalidCrontab as invalid:
            problems.extend(invalid.problems)
    if problems:
        raise InvalidCrontab(problems)
    return parse_cron_items(items)


def _item_of_task(task: CronTask, recurrence: Recurrence) -> CronItem:
    if not isinstance(recurrence, str):
        return CronItem(task, recurrence)
    line = _Line(recurrence, None, task.name)
    line.read(with_task=False)
    line.values["task"] = task
    item = line.item("extended")
    if item is None:
        raise InvalidCrontab(sorted(line.problems, key=_column))
    return item
