"""The parsers on odd texts: each returns, or raises its own error.

Nearly valid texts find more than noise: known texts are cut, doubled and mixed. HYPOTHESIS_PROFILE=soak tries many
more.
"""

import argparse
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from asyncq.cli.parsing import duration as cli_duration
from asyncq.cli.parsing import instant, positive
from asyncq.domain import canonical
from asyncq.domain.cron.text import items_of_task, parse_crontab
from asyncq.domain.duration import parse_duration, parse_time_phrase
from asyncq.domain.errors import InvalidCrontab, InvalidJob
from asyncq.domain.payload import check_text
from asyncq.domain.task import task
from asyncq.domain.unique import UniquePolicy
from asyncq.store.failures import target

SEEDS = {
    "crontab": [
        "30 4 * * 1 send_weekly_email ?fill=2d&max=10 {onboarding: false}",
        "0 8 1-5,7 */2 mon-fri t ?id=a&tz=Europe/Berlin&flags=a,b&jobKey=%20&job_key_mode=replace",
        "@daily t {a: [1e3, 0x1f, .5, Infinity], 'b': \"\\u0000\"} // said\r\n# a comment\n\nH H(1-5) * * * t",
        "0 0 31 2 * never ?priority=-32769",
    ],
    "phrase": ["4w3d2h1m", "999999999999w", "1.5h", "0s"],
    "duration": ["P3W4DT5H6M7.5S", "PT1H", "P9999999999Y", "P1Y2M"],
    "span": ["2h30m", "1e9s", "500ms", "99999999999999999999d"],
    "instant": ["2030-01-31T09:00:00Z", "0001-01-01T00:00:00+14:00", "20300131T0900", "2030-W01-1"],
    "number": ["42", "-1", "٣", "9223372036854775808", "1_0"],
    "json": ['{"a": [1, 2.5e300, "\\ud800"], "": null}', '"\\u0000"', "1e999", "[" * 200 + "]" * 200, "-0.0"],
    "dsn": [
        "postgresql://user:p%40ss@host:5432/name?host=/run&sslmode=require",
        "postgres://u:secret/word@h/d",
        "postgresql://[::1]:5432,b:99999/d",
        "host=x dbname=y",
    ],
}


def texts(kind: str) -> st.SearchStrategy[str]:
    """Known texts in pieces, with anything between them."""
    pieces = st.sampled_from(SEEDS[kind]).flatmap(
        lambda seed: st.tuples(st.integers(0, len(seed)), st.integers(0, len(seed))).map(
            lambda ends: seed[min(ends) : max(ends)]
        )
    )
    return st.lists(st.one_of(pieces, st.sampled_from(SEEDS[kind]), st.text(max_size=5)), max_size=6).map("".join)


def is_parsed_or_refused(parse: Callable[[Any], Any], error: type[Exception], text: Any) -> bool:
    """Parse; any error but the parser's own fails the test, and so does one without a message."""
    try:
        parse(text)
    except error as refusal:
        return str(refusal) != ""
    return True


@given(texts("crontab"), st.sampled_from(["crontab", "extended"]))
def test_a_crontab_is_parsed_or_refused_with_its_problems(text: str, dialect: Any) -> None:
    """It is read from files that people edit."""
    assert is_parsed_or_refused(lambda text: parse_crontab(text, dialect=dialect), InvalidCrontab, text)


@given(texts("crontab"))
def test_the_crontab_of_a_task_is_parsed_or_refused(text: str) -> None:
    """It is written in a decorator."""

    @task
    async def t() -> None: ...

    assert is_parsed_or_refused(lambda text: items_of_task(t, [text]), InvalidCrontab, text)


@pytest.mark.parametrize(
    ("kind", "parse", "error"),
    [
        ("phrase", parse_time_phrase, ValueError),
        ("duration", parse_duration, ValueError),
        ("span", cli_duration, argparse.ArgumentTypeError),
        ("instant", instant, argparse.ArgumentTypeError),
        ("number", positive, argparse.ArgumentTypeError),
        ("json", check_text, InvalidJob),
        ("json", canonical.parse, canonical.NotCanonical),
    ],
    ids=["phrase", "duration", "span", "instant", "number", "json", "canonical"],
)
@given(data=st.data())
def test_a_word_is_parsed_or_refused(kind: str, parse: Callable[[str], Any], error: type[Exception], data: Any) -> None:
    """It comes from a command line, a crontab or a database."""
    assert is_parsed_or_refused(parse, error, data.draw(texts(kind)))


@given(texts("duration"))
def test_a_parsed_duration_gives_a_time(text: str) -> None:
    """A duration that overflows later would fail at an unexpected place."""
    try:
        months, days, microseconds = parse_duration(text)
    except ValueError:
        return

    assert months >= 0
    assert timedelta(days=days, microseconds=microseconds) >= timedelta(0)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda below: st.lists(below, max_size=4) | st.dictionaries(st.text(max_size=5), below, max_size=4),
        max_leaves=10,
    ),
    st.sampled_from([None, *UniquePolicy.__struct_fields__]),
)
def test_a_policy_is_taken_or_refused(value: Any, member: str | None) -> None:
    """It arrives as JSON, from SQL and other languages."""
    policy = value if member is None else {member: value}
    assert is_parsed_or_refused(UniquePolicy.parse, InvalidJob, policy)


@given(texts("dsn"))
def test_the_target_of_a_dsn_is_shown_without_its_password(text: str) -> None:
    """The text appears in logs and error messages. A piece of a password may be the name of a database too."""
    assume(text.count("secret") == text.count("u:secret/word@"))
    assume(text.count("p%40ss") == text.count("user:p%40ss@"))
    said = target(text)

    assert "secret" not in said
    assert "p%40ss" not in said
