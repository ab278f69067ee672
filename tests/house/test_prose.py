"""The guide and the README are plain technical English: short sentences, and the terms of the field."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
PAGES = [CHECKOUT / "README.md", *sorted((CHECKOUT / "docs/guide").glob("*.md"))]

LONGEST = 40
AVERAGE = 20

DIALECT = re.compile(
    r"\b(?:told|lookout|who(?:m)?ever|dear|merely|thereof|in vain|to be had|anew|bars?|hears? of|for dead"
    r"|com(?:e|es|ing) to(?= (?:the same|what|be|an? |its|one|\d|nothing|`))|came to"
    r"|(?:goes|go|gone|went) away|(?:is|are) of(?! use)|stands?(?! (?:for|by|in|still)\b)|stood(?! still))\b",
    re.IGNORECASE,
)
"""Words and phrases that the field has others for: reported, becomes, exists, is removed, belongs to, expensive."""

FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
NO_PROSE = re.compile(r"^(?: {4}.*|#.*|<!--.*|!\[.*)$", re.MULTILINE)
END = re.compile(r"(?<=[.!?])[*_)\"]*\s+(?=[\"'(*_`\[]*[A-Z0-9`\[])")
WORD = re.compile(r"[\w'’`./:<>=@-]*\w[\w'’`./:<>=@-]*")


def passages(text: str) -> Iterator[tuple[bool, str]]:
    """Yield each paragraph, item of a list and cell of a table, with whether it is a cell."""
    text = NO_PROSE.sub("", FENCED.sub("", text))
    text = re.sub(r"`[^`]*`", "`code`", re.sub(r"\]\([^)]*\)", "]", text))
    for block in re.split(r"\n\s*\n", text):
        if block.lstrip().startswith("|"):
            yield from ((True, cell.strip()) for row in block.splitlines() for cell in row.split("|") if cell.strip())
        else:
            yield from (
                (False, " ".join(item.split())) for item in re.split(r"^(?:[-*]|\d+\.) ", block, flags=re.MULTILINE)
            )


def sentences(text: str) -> Iterator[tuple[bool, str]]:
    """Yield each sentence, with whether it stands in a table."""
    for is_cell, passage in passages(text):
        yield from ((is_cell, found) for found in END.split(passage) if WORD.search(found))


def length(sentence: str) -> int:
    """The words of a sentence; a piece of code is one."""
    return len(WORD.findall(sentence))


def average(text: str) -> float:
    """The average length of the sentences outside of tables, whose cells are often single words."""
    lengths = [length(sentence) for is_cell, sentence in sentences(text) if not is_cell]
    return sum(lengths) / max(len(lengths), 1)


def name_of(page: Path) -> str:
    """How a test of a page is called."""
    return page.relative_to(CHECKOUT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_sentence_of_a_page_has_more_than_40_words(page: Path) -> None:
    """A longer one has to be read twice."""
    assert [] == [sentence for _, sentence in sentences(page.read_text()) if length(sentence) > LONGEST]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_sentences_of_a_page_have_at_most_20_words_on_average(page: Path) -> None:
    """A page of sentences at the limit is as hard to read as one that is too long."""
    assert average(page.read_text()) <= AVERAGE


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_page_uses_the_terms_of_the_field(page: Path) -> None:
    """A reader knows other queues, and may not be a native speaker."""
    found = [sentence for _, sentence in sentences(page.read_text()) if DIALECT.search(sentence)]

    assert [] == found


def test_sentences_are_found() -> None:
    """A rule whose check sees nothing is no rule."""
    text = "# Title\n\nOne `a.b. C` two. *Three* four?\n- Five.\n- Six\n  seven\n\n| a | b c. D |\n\n    code\n"

    expected = [
        (False, "One `code` two."),
        (False, "*Three* four?"),
        (False, "Five."),
        (False, "Six seven"),
        (True, "a"),
        (True, "b c."),
        (True, "D"),
    ]
    assert expected == list(sentences(text))
    assert (3, 2) == (length("One `code` two."), length("Six seven"))
    assert [True, True, False] == [
        bool(DIALECT.search(sentence)) for sentence in ("It was told.", "It comes to the same.", "It is reported.")
    ]
