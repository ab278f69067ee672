"""The text of a crontab: each form of a line, and each way in which it can be wrong."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncq.domain.cron.item import CronItem
from asyncq.domain.cron.text import MAX_JSON5, items_of_task, parse_crontab
from asyncq.domain.cron.times import TimeDigest
from asyncq.domain.errors import InvalidCrontab
from asyncq.domain.job import JobKeyMode
from asyncq.domain.task import task


@task(queue="mail")
async def send_email(dry_run: bool = False) -> None:
    """A task with defaults."""


def at_noon(minute: TimeDigest) -> bool:
    """A function instead of a line."""
    return minute.hour == 12 and minute.minute == 0


def parse_one(line: str) -> CronItem:
    """The only item of a text."""
    [item] = parse_crontab(line)
    return item


def problems(text: str, **options: Any) -> list[str]:
    """The messages of all problems of a text."""
    with pytest.raises(InvalidCrontab) as caught:
        parse_crontab(text, **options)
    return [str(problem) for problem in caught.value.problems]


def crontab_item(task: str, match: str, **options: Any) -> CronItem:
    """An item as a text has it."""
    return CronItem(task, match, dialect="crontab", **options)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("* * * * * t", crontab_item("t", "* * * * *")),
        ("30 4 * * 1 send_weekly_email", crontab_item("send_weekly_email", "30 4 * * 1")),
        (
            "30 4 * * 1 send_weekly_email ?fill=2d&max=10 {onboarding:false}",
            crontab_item(
                "send_weekly_email",
                "30 4 * * 1",
                fill=timedelta(days=2),
                max_attempts=10,
                payload={"onboarding": False},
            ),
        ),
        ("0 */4 * * * rollup", crontab_item("rollup", "0 */4 * * *")),
        (
            "0 0 * * * t ?id=nightly&queue=a:b-1&priority=-3&jobKey=a%20key%26+more&jobKeyMode=preserve_run_at",
            crontab_item(
                "t",
                "0 0 * * *",
                identifier="nightly",
                queue="a:b-1",
                priority=-3,
                job_key="a key& more",
                job_key_mode=JobKeyMode.PRESERVE_RUN_AT,
            ),
        ),
        (
            "0 0 * * * t ?job_key=k&job_key_mode=unsafe_dedupe&tz=Europe/Berlin&flags=gpu,big%20one",
            crontab_item(
                "t",
                "0 0 * * *",
                job_key="k",
                job_key_mode=JobKeyMode.UNSAFE_DEDUPE,
                tz="Europe/Berlin",
                flags=["gpu", "big one"],
            ),
        ),
        ("* * * * * _a/b:c-d", crontab_item("_a/b:c-d", "* * * * *")),
        ("* * * * * t {}", crontab_item("t", "* * * * *", payload={})),
        (
            "* * * * * t {a: 'x y', \"b\": [1, 0x10, .5,], /* why */ c: {d: null},}",
            crontab_item("t", "* * * * *", payload={"a": "x y", "b": [1, 16, 0.5], "c": {"d": None}}),
        ),
    ],
)
def test_a_line_is_an_item(line: str, expected: CronItem) -> None:
    """The first lines are the examples of the seed; then every option in both of its spellings, and JSON5."""
    assert expected == parse_one(line)


@pytest.mark.parametrize(
    "text",
    [
        "0 4 * * * a\n5 4 * * * b\n",
        "0 4 * * * a\n5 4 * * * b",
        "\ufeff0 4 * * * a\r\n5 4 * * * b\r\n",
        "\n# about a\n  # more\n\n \t \n0 4 * * * a\n\n#\n5 4 * * * b\n#",
        "\t0 4 * * * a \t\r\n 5 4 * * * b  ",
        "0 4 * * * a\r5 4 * * * b\r",
    ],
    ids=ascii,
)
def test_blank_lines_comments_and_the_ends_of_lines_change_nothing(text: str) -> None:
    """Editors differ in line endings, and may leave out the last one."""
    assert ["0 4 * * *", "5 4 * * *"] == [item.match for item in parse_crontab(text)]


def test_blanks_and_tabs_separate_the_parts() -> None:
    """Any number of them is allowed, so that columns can be aligned."""
    assert parse_one("0 4 * * * t ?max=3 {a: 1}").template == parse_one("0\t4  *\t * *   t\t?max=3 \t {a: 1}").template


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing yet", "\ufeff"])
def test_an_empty_crontab_has_no_items(text: str) -> None:
    """The file may exist before the first item."""
    assert () == parse_crontab(text)


def test_a_text_may_be_in_the_extended_dialect() -> None:
    """A nickname is one field instead of five."""
    items = parse_crontab("@daily a ?max=1\n0 8 * * mon-fri b\nH H(1-5) * * * c", dialect="extended")

    assert ["@daily", "0 8 * * mon-fri", "H H(1-5) * * *"] == [item.match for item in items]


FORMS = "expected a letter or _, then letters, digits, _, :, / and -"
FIVE = "expected five fields: minute, hour, day of the month, month, day of the week"
SIX = f"{FIVE.replace(' fields', '')}; there is none for seconds or years"
OPTIONS = "id, fill, max, queue, priority, jobKey, job_key, jobKeyMode, job_key_mode, tz, flags, overlap"
NOTHING = "is not allowed here, expected ?options, a {payload}, or nothing"
PHRASE = "is not a time phrase, expected numbers with a unit s, m, h, d or w, such as '3d12h'"
TWICE = "'send_email' and 'send_email'"
NO_SECONDS = "there is no field for seconds or years"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("0 24 * * * t", "column 3: hour is 24, expected 0 to 23"),
        ("  0 24 * * * t", "column 5: hour is 24, expected 0 to 23"),
        ("0 0 30 2 * t", "column 5: '0 0 30 2 *' never fires: no month in it has such a day"),
        ("@daily t", "column 1: '@daily' is not part of the dialect 'crontab', expected five fields"),
        ("* * * * t", f"column 8: the day of the week is missing, {FIVE}"),
        ("t", f"column 1: the minute is missing, {FIVE}"),
        ("* * * * *", "column 10: the task is missing, expected its name after the five fields"),
        ("* * * * * ?max=1", "column 11: the task is missing, expected its name after the five fields"),
        ("* * * * * * t", f"column 11: task is '*', {FORMS}; {NO_SECONDS}"),
        ("* * * * * 1t", f"column 11: task is '1t', {FORMS}"),
        ("* * * * * té", f"column 11: task is 'té', {FORMS}"),
        ("* * * * * t more", f"column 13: 'more' {NOTHING}"),
        ("* * * * * t # why ?max=1", f"column 13: '# why' {NOTHING}"),
        ("* * * * * t ?max=1 [1]", f"column 20: '[1]' {NOTHING}"),
        ("* * * * * t ?", "column 14: '' is not an option, expected name=value"),
        ("* * * * * t ?max=1&", "column 20: '' is not an option, expected name=value"),
        ("* * * * * t ?max", "column 14: 'max' is not an option, expected name=value"),
        ("* * * * * t ?=1", "column 14: '=1' is not an option, expected name=value"),
        ("* * * * * t ?prio=1", "column 14: there is no option 'prio'; did you mean 'priority'?"),
        (
            "* * * * * t ?x=1",
            f"column 14: there is no option 'x'; expected one of {OPTIONS}",
        ),
        ("* * * * * t ?max=1&max=2", "column 20: 'max' is given twice, first as 'max'"),
        ("* * * * * t ?jobKey=a&job_key=a", "column 23: 'job_key' is given twice, first as 'jobKey'"),
        (
            "* * * * * t ?id=1a",
            "column 14: id: '1a' cannot be used, expected a letter or _, then letters, digits, _ and -",
        ),
        (
            "* * * * * t ?fill=2x",
            f"column 14: fill: '2x' {PHRASE}",
        ),
        ("* * * * * t ?fill=99999w", "column 14: fill: '99999w' is longer than 36525 days (100 years)"),
        ("* * * * * t ?max=-1", "column 14: max: '-1' cannot be used, expected a number of 1 to 32767"),
        ("* * * * * t ?max=0", "column 14: max_attempts is 0, expected 1 to 32767"),
        ("* * * * * t ?max=32768", "column 14: max_attempts is 32768, expected 1 to 32767"),
        ("* * * * * t ?queue=a%20b", "column 14: queue: 'a b' cannot be used, expected letters, digits, _, - and :"),
        (
            "* * * * * t ?queue=default",
            "column 14: queue 'default' is reserved for jobs without a queue; choose another name",
        ),
        (
            "* * * * * t ?priority=1.5",
            "column 14: priority: '1.5' cannot be used, expected a number of -32768 to 32767",
        ),
        ("* * * * * t ?priority=99999", "column 14: priority is 99999, expected -32768 to 32767"),
        ("* * * * * t ?jobKey=", "column 14: job_key is empty, at least 1 character is needed"),
        ("* * * * * t ?jobKey=%ff", "column 14: jobKey is '%ff', expected percent-encoded UTF-8"),
        (
            "* * * * * t ?jobKeyMode=keep",
            "column 14: jobKeyMode: 'keep' is unknown, expected replace, preserve_run_at, unsafe_dedupe",
        ),
        (
            "* * * * * t ?tz=Europe/Berln",
            "column 14: tz: 'Europe/Berln' is not a time zone; did you mean 'Europe/Berlin'?",
        ),
        ("* * * * * t ?flags=a,,b", "column 14: flags: 'a,,b' cannot be used, expected names with commas between them"),
        ("* * * * * t {a:}", 'column 16: payload is not a JSON5 object: Unexpected "}"'),
        ("* * * * * t {a:1", "column 17: payload is not a JSON5 object: Unexpected end of input"),
        ("* * * * * t {a:1} ?max=1", 'column 19: payload is not a JSON5 object: Unexpected "?"'),
        ("* * * * * t {a:1,a:2}", 'column 13: payload is not a JSON5 object: Duplicate key "a" found in object'),
        ("* * * * * t {a:NaN}", "column 13: payload holds NaN or Infinity at $.a, which JSON lacks"),
        (f"* * * * * t {{a:{'[' * 5000}", "column 13: payload is nested too deeply"),
    ],
    ids=lambda value: ascii(value)[:40],
)
def test_each_problem_is_reported_with_line_column_and_the_expected_value(line: str, expected: str) -> None:
    """The column is that of the option, of the element of a field, or of the character in the payload."""
    assert [f"line 1, {expected}"] == problems(line)


def test_all_problems_of_a_text_are_reported_at_once() -> None:
    """They have the order of the text, and the error names the file."""
    text = "0 4 * * * ok\n60 4 * * 9 1a ?max=0&prio=1 {a:}\n\n* * * * * ok\n5 5 * * * other ?id=ok\n"

    with pytest.raises(InvalidCrontab) as caught:
        parse_crontab(text, source="crontab")

    assert (
        "crontab has 8 problems:\n"
        "  line 2, column 1: minute is 60, expected 0 to 59\n"
        "  line 2, column 10: day of the week is 9, expected 0 to 7\n"
        f"  line 2, column 12: task is '1a', {FORMS}\n"
        "  line 2, column 16: max_attempts is 0, expected 1 to 32767\n"
        "  line 2, column 22: there is no option 'prio'; did you mean 'priority'?\n"
        '  line 2, column 32: payload is not a JSON5 object: Unexpected "}"\n'
        "  line 4, column 11: identifier 'ok' is that of line 1 too; give one of them ?id=\n"
        "  line 5, column 18: identifier 'ok' is that of line 1 too; give one of them ?id="
    ) == str(caught.value)


def test_a_problem_can_be_read_by_programs() -> None:
    """Editors need the place, not only the sentence."""
    with pytest.raises(InvalidCrontab) as caught:
        parse_crontab("\n* * * * * t ?max=0")

    [problem] = caught.value.problems

    assert ("max_attempts", 2, 14, None) == (problem.field, problem.line, problem.column, problem.item)


@given(st.text(st.sampled_from("0*/,- \tab?=&{}:'#@\n1H%"), max_size=40))
def test_any_text_is_read_or_refused_in_a_sentence(text: str) -> None:
    """It raises no other error, and every place is within the text or just behind its line."""
    try:
        parse_crontab(text, dialect="extended")
    except InvalidCrontab as invalid:
        lines = text.split("\n")

        assert all(1 <= problem.column <= len(lines[problem.line - 1]) + 1 for problem in invalid.problems)  # noqa: PT017


@pytest.mark.parametrize(
    ("cron", "expected"),
    [
        (None, []),
        ("0 8 * * *", [CronItem(send_email, "0 8 * * *")]),
        ("@daily", [CronItem(send_email, "@daily")]),
        (
            "0 8 * * mon-fri ?id=mornings&tz=Europe/Berlin&fill=1d {dry_run: true}",
            [
                CronItem(
                    send_email,
                    "0 8 * * mon-fri",
                    identifier="mornings",
                    tz="Europe/Berlin",
                    fill=timedelta(days=1),
                    payload={"dry_run": True},
                )
            ],
        ),
        (at_noon, [CronItem(send_email, at_noon)]),
        (
            ["0 8 * * *", "0 9 * * * ?id=nine"],
            [CronItem(send_email, "0 8 * * *"), CronItem(send_email, "0 9 * * *", identifier="nine")],
        ),
    ],
    ids=["none", "fields", "nickname", "line", "function", "several"],
)
def test_a_task_brings_its_items_along(cron: Any, expected: list[CronItem]) -> None:
    """It may be a line without the task, a function, or several. They have the defaults of the task."""
    items = items_of_task(send_email, cron)

    assert expected == [*items]
    assert ["mail"] * len(expected) == [item.template.queue for item in items]


@pytest.mark.parametrize(
    ("cron", "expected"),
    [
        ("60 8 * * *", "item 'send_email', column 1: minute is 60, expected 0 to 59"),
        ("", f"item 'send_email', column 1: the minute is missing, {FIVE}"),
        ("0 8 * * * t", f"item 'send_email', column 11: there are 6 fields, {SIX}"),
        ("0 8 * * * ?max=0", "item 'send_email', column 12: max_attempts is 0, expected 1 to 32767"),
        (
            "0 8 * * * {dry_run: 1}",
            "item 'send_email', column 11: payload of task 'send_email': Expected `bool`, got `int` - at `$.dry_run`",
        ),
        (
            ["0 8 * * *", "0 9 * * *"],
            f"item 'send_email': two items, of the tasks {TWICE}, have this identifier; give one of them another",
        ),
        ([5], "item 'send_email': match must be a cron expression or a plain function, got 5"),
    ],
    ids=lambda value: ascii(value)[:30],
)
def test_options_that_the_crontab_of_a_task_cannot_have_are_refused(cron: Any, expected: str) -> None:
    """They are refused when the module is imported, with the task's name."""
    with pytest.raises(InvalidCrontab) as caught:
        items_of_task(send_email, cron)

    assert [expected] == [str(problem) for problem in caught.value.problems]


# The size of a payload


def payload_of(size: int, char: str = "x") -> str:
    """A payload of so many bytes."""
    room = size - len("{a:''}")
    return f"{{a:'{char * (room // len(char.encode()))}'}}"


def test_a_payload_of_exactly_the_limit_is_read() -> None:
    """The limit itself is allowed."""
    item = parse_one(f"* * * * * t {payload_of(MAX_JSON5)}")

    assert MAX_JSON5 - len("{a:''}") == len(item.members["a"]) - len('""')


@pytest.mark.parametrize(
    ("payload", "size"),
    [
        (payload_of(MAX_JSON5 + 1), MAX_JSON5 + 1),
        (payload_of(1024 * 1024), 1024 * 1024),
        ("{a:[" + "1," * 500_000 + "]}", 1_000_006),
        (payload_of(MAX_JSON5 + 2, "ü"), MAX_JSON5 + 2),
        ("{" + "[" * MAX_JSON5, MAX_JSON5 + 1),
    ],
    ids=["one byte more", "a string", "an array", "two bytes a character", "no JSON5"],
)
def test_a_payload_above_the_limit_is_refused_before_it_is_parsed(
    payload: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The parser takes a minute for a megabyte, and holds the event loop for that long."""

    def parse(*_: object, **__: object) -> None:
        raise AssertionError("the payload was parsed")

    monkeypatch.setattr("json5.loads", parse)
    said = f"payload is {size} bytes of JSON5, at most 65536 are allowed; a CronItem in code takes more"

    assert [f"line 1, column 13: {said}"] == problems(f"* * * * * t {payload}")


def test_a_tasks_own_cron_line_has_the_same_limit() -> None:
    """It is read by the same parser, when the module is imported."""
    with pytest.raises(InvalidCrontab) as caught:
        items_of_task(send_email, f"* * * * * {payload_of(MAX_JSON5 + 1)}")

    assert "at most 65536 are allowed" in str(caught.value)


def test_an_item_in_code_takes_a_larger_payload() -> None:
    """It is no JSON5: nothing has to be parsed."""
    item = CronItem("t", "* * * * *", payload={"a": "x" * MAX_JSON5})

    assert MAX_JSON5 == len(item.members["a"]) - len('""')
