"""The conditions of a fetch exist in one place, so that explain cannot differ from it.

The same holds for the defaults of an add, and for the jobs that fit into a batch.
"""

import re
from collections.abc import Iterable, Iterator

import pytest

from asyncq.store.statements import folder
from tests.sql.test_install import code

# A condition -> its text, with any prefix of the columns.
QUESTIONS = {
    "is_ready": r"\battempts\s*<\s*(?:\w+\.)?max_attempts\b",
    "is_discarded": r"\battempts\s*>=\s*(?:\w+\.)?max_attempts\b",
    "is_due": r"(?<!given\.)\brun_at\s*(?:<=|>)(?!=)",
    "is_known": r"\btask_id\s*(?:=|<>)\s*(?:any|all)\b",
    "are_allowed": r"\bflags\s*\?[|&]",
    "is_leased": r"\blast_seen\s*[+<]",
    "max_attempts": r"\bcoalesce\([^()]*,\s*25\)",
    "priority": r"\bcoalesce\([^()]*priority\w*,\s*0\)|\bcoalesce\(given,\s*0\)",
    "fits_batch": r"\bpayload(?:::\w+)?\)\s*<=\s*\d",
}
FILES = [*(folder() / "queries").rglob("*.sql"), *(folder() / "functions").rglob("*.sql")]


def parts() -> Iterator[tuple[str, str]]:
    """Name and text of each statement, and of each function without its first underscore."""
    for path in FILES:
        pieces = re.split(r"^create or replace function asyncq\._?(\w+)", code(path), flags=re.MULTILINE)
        yield from zip(pieces[1::2], pieces[2::2], strict=True) if pieces[1:] else [(path.stem, pieces[0])]


def copies(question: str, texts: Iterable[tuple[str, str]]) -> list[str]:
    """The names of the statements and functions in which a question is answered."""
    return sorted(name for name, text in texts if re.search(QUESTIONS[question], text))


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_is_answered_in_one_function_only(question: str) -> None:
    """A second copy would be right until one of them is changed."""
    assert [question] == copies(question, parts())


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("is_ready", "where locked_by is null and attempts < max_attempts"),
        ("is_ready", "job.attempts<job.max_attempts"),
        ("is_discarded", "job.attempts >= job.max_attempts"),
        ("is_due", "and run_at <= coalesce($9, asyncq.now())"),
        ("is_due", "job.run_at > asyncq.now()"),
        ("is_known", "task_id = any($4)"),
        ("are_allowed", "not flags ?| $5"),
        ("is_leased", "last_seen + lease < clock_timestamp()"),
        ("max_attempts", "coalesce(spec.max_attempts, 25)"),
        ("priority", "array[coalesce(given.priority, 0)::smallint]"),
        ("fits_batch", "octet_length(job.payload::text) <= 1000"),
    ],
)
def test_the_scan_sees_a_copy(question: str, text: str) -> None:
    """A rule whose check sees nothing is no rule."""
    assert ["copy"] == copies(question, [("copy", text), ("other", "run_at >= '0001-01-01' and given.run_at <= soon")])


def test_the_questions_are_those_of_the_functions() -> None:
    """Each is a function."""
    assert QUESTIONS.keys() <= {name for name, _ in parts()}
