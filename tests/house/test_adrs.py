"""A decision takes two minutes to read: its status, its date, four parts, plain words, one page."""

import re
from pathlib import Path

from tests.house.prose import faults

CHECKOUT = Path(__file__).parents[2]
ADRS = CHECKOUT / "docs/adr"
PAGES = sorted(ADRS.glob("0*.md"))
INDEX = ADRS / "README.md"
NOTES = sorted((CHECKOUT / "benchmarks/notes").glob("*.md"))
FOLDERS = ("asyncq", "benchmarks", "deploy", "docs", "examples", "sql", "tests", "tools")
SUFFIXES = (".md", ".py", ".sql")

LINES = 60
COLUMNS = 120
PARTS = ["Context", "Decision", "Rejected", "Consequences"]
HEAD = re.compile(
    r"# (?P<number>\d+)\. (?P<title>.+)\n\n"
    r"- Status: (?P<status>accepted|superseded by \[\d+\]\((?P<successor>\d{4}-[\w-]+\.md)\))\n"
    r"- Date: (?P<date>20\d\d-\d\d-\d\d)\n\n"
)
FORMER_TERMS = re.compile(
    r"\b(lookout|who tells|offers?|successions?|lifeline|guardian|spares|hindered|fate)\b", re.IGNORECASE
)
"""Words that only this project used, for which the field has a term."""
LABEL = re.compile(r"\*\*[^*]+\*\*|^[-*] (?:Status|Date): .*$|(?<=^- )\*[^*]+\.\*\s|^\*[^*]+\.\*\s", re.MULTILINE)


def faults_of_decision(page: str) -> list[str]:
    """Say what a page breaks of the limits of sentences and words; its labels are no sentences."""
    return faults(LABEL.sub("", page)) + [f"former term: {word[0]}" for word in FORMER_TERMS.finditer(page)]


def test_a_decision_has_status_date_and_its_four_parts() -> None:
    """Readers ask first whether it is still true, and then why."""
    for page in PAGES:
        head = HEAD.match(page.read_text())
        assert head, page

        assert int(page.name[:4]) == int(head["number"])
        assert head["successor"] is None or (ADRS / head["successor"]).is_file(), page
        assert (page, re.findall(r"^\*\*(\w+)\.?\*\*", page.read_text(), re.MULTILINE)) == (page, PARTS)


def test_a_decision_fits_on_a_page() -> None:
    """A longer one is a notebook: experiments belong into benchmarks/notes."""
    lines = [(page, page.read_text().splitlines()) for page in PAGES]

    assert [] == [page for page, those in lines if len(those) > LINES]
    assert [] == [line for _, those in lines for line in those if len(line) > COLUMNS and not line.startswith("|")]


def test_decisions_are_written_in_plain_english() -> None:
    """Readers must understand them at once."""
    assert [] == [(page, fault) for page in [*PAGES, INDEX] for fault in faults_of_decision(page.read_text())]


def test_the_index_lists_every_decision_with_its_title_and_status() -> None:
    """Numbers have no gaps, so that nobody searches for a missing one."""
    heads = [(page.name, HEAD.match(page.read_text())) for page in PAGES]
    expected = [(name, head["number"], head["title"], head["status"]) for name, head in heads if head]
    rows = re.findall(r"^(\d+)\. \[(.+?)\]\(([\w.-]+)\), ([^:]+): .+\.$", INDEX.read_text(), re.MULTILINE)

    assert [*range(1, len(PAGES) + 1)] == [int(number) for _, number, _, _ in expected]
    assert expected == [(name, number, title, status) for number, title, name, status in rows]


def test_links_of_decisions_and_notes_lead_to_files() -> None:
    """A decision without its figures cannot be judged."""
    links = [
        page.parent / target
        for page in [*PAGES, INDEX, *NOTES]
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
    ]

    assert links
    assert [] == [link for link in links if not link.is_file()]


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


def test_labels_are_no_sentences_and_former_terms_are_found() -> None:
    """A rule whose check sees nothing is no rule."""
    text = "word " * 20 + "end."
    page = f"- Status: accepted\n- Date: 2026-11-26\n\n**Context.** The {text}\n\n- *Label.* An {text}\n\nThe lookout."

    assert ["former term: lookout"] == [fault for fault in faults_of_decision(page) if "dialect" not in fault]
    assert ["22.0 words on average"] == faults_of_decision(page.removesuffix("The lookout."))
