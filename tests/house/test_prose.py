"""The documents for users are plain technical English: short sentences, and the terms of the field."""

from pathlib import Path

import pytest

from tests.house.prose import DIALECT, faults, length, sentences

CHECKOUT = Path(__file__).parents[2]
PAGES = [
    *(CHECKOUT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")),
    *(CHECKOUT / "docs" / name for name in ("architecture.md", "glossary.md", "performance.md", "scale.md")),
    CHECKOUT / "docs/guarantees.md",
    *sorted((CHECKOUT / "docs/guide").glob("*.md")),
    *sorted((CHECKOUT / "examples").glob("*/README.md")),
    CHECKOUT / "tests/upgrades/README.md",
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(CHECKOUT).as_posix())
def test_a_page_is_written_in_plain_english(page: Path) -> None:
    """A reader knows other queues, and may not be a native speaker."""
    assert [] == faults(page.read_text())


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


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("It was told.", ["told"]),
        ("It comes to the same.", ["comes to"]),
        ("The row goes away.", ["goes away"]),
        ("It stands in the list.", []),
        ("It stands there.", ["stands"]),
        ("It is reported.", []),
    ],
)
def test_dialect_is_found(sentence: str, expected: list[str]) -> None:
    """Whole words only, and none of the phrases that a reader knows."""
    assert expected == [found[0] for found in DIALECT.finditer(sentence)]


def test_a_page_is_told_what_is_wrong_with_it() -> None:
    """Each limit has its own sentence; cells of tables count towards the length, not towards the average."""
    long = f"Word {'word ' * 40}end."

    assert [f"42 words: {long}", "42.0 words on average"] == faults(long)
    assert [f"42 words: {long}"] == faults(f"Short.\n\n| a | {long} |")
    assert ["dialect: dear: A dear one."] == faults("A dear one.")
