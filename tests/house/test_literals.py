"""Settings of the caller must not change the meaning of a literal in sql/."""

import re

import pytest

from asyncq.store.statements import folder

# Comments and E'' strings first: their contents are no plain literals.
TOKENS = re.compile(r"--[^\n]*|\b[eE]'(?:[^'\\]|''|\\.)*'|(?P<plain>'(?:[^']|'')*')", re.DOTALL)
FILES = sorted(folder().rglob("*.sql"))


def unsafe(text: str) -> list[str]:
    """The plain literals that hold a backslash."""
    return [found["plain"] for found in TOKENS.finditer(text) if found["plain"] and "\\" in found["plain"]]


def test_a_literal_with_a_backslash_is_an_escape_string() -> None:
    """If standard_conforming_strings is off, a backslash in a plain literal is an escape: write E'' and two of them."""
    assert [] == [(path.name, literal) for path in FILES for literal in unsafe(path.read_text("utf-8"))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"select '\d+', 'it''s \s'", [r"'\d+'", r"'it''s \s'"]),
        (r"select E'\\d+', e'\'', '\d'", [r"'\d'"]),
        (r"-- it's '\d'" + "\nselect 'a--b', '\\w'", [r"'\w'"]),
    ],
    ids=["plain", "escaped", "comment"],
)
def test_the_scan_sees_a_backslash(text: str, expected: list[str]) -> None:
    """A rule whose check sees nothing is no rule."""
    assert expected == unsafe(text)
