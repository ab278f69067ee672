"""The figures of the documentation are generated from a committed result."""

from pathlib import Path

import pytest

from benchmarks.suite import docs
from benchmarks.suite.__main__ import command
from benchmarks.suite.places import RESULTS
from benchmarks.suite.result import Result


@pytest.mark.parametrize("part", ["result", "picture"])
def test_a_part_is_replaced_and_the_text_around_it_stays(part: str) -> None:
    """The page is written by people, its tables are not."""
    text = f"above\n<!-- {part} -->\nold\n<!-- end of {part} -->\nbelow\n"

    assert text.replace("old\n", "new\n") == docs.replaced(text, part, "new\n")


def test_a_page_without_the_place_is_refused() -> None:
    """Nobody would notice a table that is silently not written."""
    with pytest.raises(ValueError, match="no one place for result"):
        docs.replaced("nothing here\n", "result", "new\n")


def test_the_pages_have_their_places() -> None:
    """They are found by these comments."""
    assert docs.PAGE.read_text() != docs.replaced(docs.PAGE.read_text(), "result", "other")
    assert docs.README.read_text() != docs.replaced(docs.README.read_text(), "picture", "other")


def test_the_command_in_a_result_names_no_folder() -> None:
    """The result is committed: it may name the kind of machine, but no path of it."""
    assert ("make bench", "make bench ARGS='--rounds 2'") == (
        command(["--out", "/home/me/x.json"]),
        command(["--rounds", "2", "--out", "/home/me/x.json"]),
    )


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.json")), ids=lambda path: path.name)
def test_a_committed_result_can_be_read(path: Path) -> None:
    """A comparison with an old one needs it."""
    assert Result.load(path).runs
