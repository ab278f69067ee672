"""What a literal of sql/ means is not a matter of the caller's settings."""

import re

import pytest

from asyncq.store.statements import folder

# Comments and E'' strings first: what stands in them is no plain literal.
TOKENS = re.compile(r"--[^\n]*|\b[eE]'(?:[^'\\]|''|\\.)*'|(?P<plain>'(?:[^']|'')*')", re.DOTALL)
FILES = sorted(folder().rglob("*.sql"))


def unsafe(text: str) -> list[str]:
    """The plain literals that hold a backslash."""
    return [found["plain"] for found in TOKENS.finditer(text) if found["plain"] and "\\" in found["plain"]]


def test_a_backslash_stands_in_a_literal_that_says_what_it_means() -> None:
    """Where standard_conforming_strings is off, one in a plain literal is an escape: write E'' and two of them."""
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
