"""A decision takes two minutes to read: its status, its date, four parts, plain words, one page."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
ADRS = CHECKOUT / "docs/adr"
PAGES = sorted(ADRS.glob("0*.md"))
INDEX = ADRS / "README.md"
NOTES = sorted((CHECKOUT / "benchmarks/notes").glob("*.md"))
FOLDERS = ("asyncq", "benchmarks", "docs", "examples", "sql", "tests", "tools")
SUFFIXES = (".md", ".py", ".sql")

LINES = 60
COLUMNS = 120
WORDS_OF_A_SENTENCE = 40
WORDS_ON_AVERAGE = 20
PARTS = ["Context", "Decision", "Rejected", "Consequences"]
HEAD = re.compile(
    r"# (?P<number>\d+)\. (?P<title>.+)\n\n"
    r"- Status: (?P<status>accepted|superseded by \[\d+\]\((?P<successor>\d{4}-[\w-]+\.md)\))\n"
    r"- Date: (?P<date>20\d\d-\d\d-\d\d)\n\n"
)
# Words that only this project used, for which the field has a term or a plain verb.
DIALECT = re.compile(
    r"\b(lookout|told|who(m)?ever|(comes?|came) to|(is|are) of|dear(er)?|stands?|stood|goes away|who tells"
    r"|offers?|successions?|lifeline|guardian|spares|hindered|fate)\b",
    re.IGNORECASE,
)


def sentences(page: str) -> Iterator[str]:
    """Yield the sentences of a page, without headings, tables, code blocks, and the labels before a sentence."""
    prose = re.sub(r"^```.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL)
    prose = re.sub(r"^(#|\||- Status|- Date).*$", "", prose, flags=re.MULTILINE)
    prose = re.sub(r"`[^`]*`", "code", prose)
    prose = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", prose)
    for block in re.split(r"\n\s*\n|^\s*(?:[-*+]|\d+\.) ", prose, flags=re.MULTILINE):
        words = re.sub(r"\*\*[^*]+\*\*|^\s*\*[^*]+\.\*\s", "", block)
        yield from (sentence for sentence in re.split(r"(?<=[.!?])[*)\"]*\s+", words) if re.search(r"\w", sentence))


def length(sentence: str) -> int:
    """Count the words of a sentence; a sign by itself is none."""
    return sum(1 for word in sentence.split() if re.search(r"\w", word))


def faults(page: str) -> list[str]:
    """Say what a page breaks of the limits of sentences and words."""
    lengths = {sentence: length(sentence) for sentence in sentences(page)}
    found = [f"{count} words: {text}" for text, count in lengths.items() if count > WORDS_OF_A_SENTENCE]
    average = sum(lengths.values()) / max(1, len(lengths))
    found += [f"{average:.1f} words on average"] if average > WORDS_ON_AVERAGE else []
    return found + [f"dialect: {word[0]}" for word in DIALECT.finditer(page)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_decision_has_status_date_and_its_four_parts(page: Path) -> None:
    """Readers ask first whether it is still true, and then why."""
    head = HEAD.match(page.read_text())
    assert head

    assert int(page.name[:4]) == int(head["number"])
    assert head["successor"] is None or (ADRS / head["successor"]).is_file()
    assert re.findall(r"^\*\*(\w+)\.?\*\*", page.read_text(), re.MULTILINE) == PARTS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_decision_fits_on_a_page(page: Path) -> None:
    """What is longer is a notebook: experiments go to benchmarks/notes."""
    lines = page.read_text().splitlines()

    assert len(lines) <= LINES
    assert [] == [line for line in lines if len(line) > COLUMNS and not line.startswith("|")]


@pytest.mark.parametrize("page", [*PAGES, INDEX], ids=lambda page: page.stem)
def test_decisions_are_written_in_plain_english(page: Path) -> None:
    """Short sentences with the field's terms: nobody has to decode them."""
    assert [] == faults(page.read_text())


def test_the_index_lists_every_decision_with_its_title_and_status() -> None:
    """Numbers have no gaps, so that nobody looks for one that never was."""
    heads = [(page.name, HEAD.match(page.read_text())) for page in PAGES]
    expected = [(name, head["number"], head["title"], head["status"]) for name, head in heads if head]
    rows = re.findall(r"^(\d+)\. \[(.+?)\]\(([\w.-]+)\), ([^:]+): .+\.$", INDEX.read_text(), re.MULTILINE)

    assert [*range(1, len(PAGES) + 1)] == [int(number) for _, number, _, _ in expected]
    assert expected == [(name, number, title, status) for number, title, name, status in rows]


@pytest.mark.parametrize("page", [*PAGES, INDEX, *NOTES], ids=lambda page: f"{page.parent.name}/{page.name}")
def test_links_of_decisions_and_notes_lead_to_files(page: Path) -> None:
    """A decision without its figures cannot be judged."""
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())

    assert [] == [target for target in targets if not (page.parent / target).is_file()]


def test_every_file_that_names_a_decision_names_one_that_exists() -> None:
    """Comments and pages outlive a new numbering."""
    files = [path for folder in FOLDERS for path in (CHECKOUT / folder).rglob("*") if path.suffix in SUFFIXES]
    named = [
        (path.relative_to(CHECKOUT), name)
        for path in [*files, *CHECKOUT.glob("*.md")]
        for name in re.findall(r"\badr/(\d{4}-[\w-]+\.md)", path.read_text())
    ]

    assert named
    assert [] == [(path, name) for path, name in named if not (ADRS / name).is_file()]


def test_the_check_finds_long_sentences_and_dialect() -> None:
    """A rule whose check sees nothing is no rule."""
    page = (
        "**Context.** One lookout. " + "word " * 41 + "end.\n\n| a table | " + "cell " * 50 + "|\n\n*Label.* Short.\n"
    )

    assert ["One lookout.", "word " * 41 + "end.", "Short."] == [each.strip() for each in sentences(page)]
    assert ["42 words: " + "word " * 41 + "end.", "dialect: lookout"] == faults(page)
