"""The documents for users are plain technical English: short sentences, and the terms of the field."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.house.prose import DIALECT, faults, faults_of_code, faults_of_sql, length, sentences, texts_of_code

CHECKOUT = Path(__file__).parents[2]
PAGES = [
    *(CHECKOUT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")),
    *(CHECKOUT / "docs" / name for name in ("architecture.md", "glossary.md", "performance.md", "scale.md")),
    CHECKOUT / "docs/guarantees.md",
    *sorted((CHECKOUT / "docs/guide").glob("*.md")),
    *sorted((CHECKOUT / "examples").glob("*/README.md")),
    CHECKOUT / "tests/upgrades/README.md",
]

FOLDERS = [
    "asyncq",
    "asyncq/cli",
    "asyncq/contrib",
    "asyncq/domain",
    "asyncq/domain/cron",
    "asyncq/domain/models",
    "asyncq/log",
    "asyncq/server",
    "asyncq/store",
    "asyncq/store/adapters",
    "asyncq/testing",
    "asyncq/engine",
    "asyncq/engine/base",
    "asyncq/engine/cron",
    "asyncq/engine/fetch",
    "asyncq/engine/liveness",
    "asyncq/engine/maintenance",
    "asyncq/engine/run",
    "asyncq/engine/settle",
    "benchmarks",
    "benchmarks/peers",
    "benchmarks/peers/asyncq",
    "benchmarks/profile",
    "benchmarks/scale",
    "examples/codec",
    "examples/demo",
    "examples/fastapi_app",
    "examples/flask_app",
    "examples/life",
    "examples/sql_trigger",
    "examples/standalone",
    "tests",
    "tests/benchmarks",
    "tests/cli",
    "tests/client",
    "tests/contrib",
    "tests/crash",
    "tests/deployment",
    "tests/domain",
    "tests/domain/cron",
    "tests/engine",
    "tests/engine/base",
    "tests/engine/cron",
    "tests/engine/fetch",
    "tests/engine/liveness",
    "tests/engine/maintenance",
    "tests/engine/run",
    "tests/engine/settle",
    "tests/examples",
    "tests/fundamentals",
    "tests/log",
    "tests/server",
    "tests/sql",
    "tests/sql/add",
    "tests/sql/admin",
    "tests/sql/claim",
    "tests/sql/clock",
    "tests/sql/cron",
    "tests/sql/settle",
    "tests/sql/unique",
    "tests/sql/workers",
    "tests/store",
    "tests/support",
    "tests/testing",
    "tests/upgrades",
    "tests/upgrades/fleet",
]
"""Folders whose docstrings, comments and messages were rewritten; without the folders below them."""

MODULES = [path for folder in FOLDERS for path in sorted((CHECKOUT / folder).glob("*.py"))]
STATEMENTS = sorted((CHECKOUT / "sql").rglob("*.sql"))


def in_files(paths: Sequence[Path], find: Callable[[str], list[str]]) -> list[str]:
    """The faults of files, each with the name of its file."""
    return [f"{path.relative_to(CHECKOUT)}: {fault}" for path in paths for fault in find(path.read_text())]


def test_pages_are_written_in_plain_english() -> None:
    """A reader knows other queues, and may not be a native speaker."""
    assert [] == in_files(PAGES, faults)


def test_modules_are_written_in_plain_english() -> None:
    """Docstrings, comments, errors and log sentences have the same readers as the documents."""
    assert [] == in_files(MODULES, faults_of_code)


def test_comments_of_sql_are_written_in_plain_english() -> None:
    """The comments explain locks and races, which are difficult enough."""
    assert [] == in_files(STATEMENTS, faults_of_sql)


def test_faults_of_sql_are_named() -> None:
    """Comments on their own lines, beside SQL and in the catalogue are checked; tables and signatures are not."""
    source = (
        f"-- f(told int) -> {'long ' * 30}\n-- One is\n-- of two.\n--   it  stands\nselect 'told';  -- Anew.\n"
        f"comment on table t is 'Dear.';\n-- {'word ' * 30}\n"
    )

    assert [
        "line 2: dialect: is of: One is of two.",
        "line 5: dialect: Anew: Anew.",
        "line 6: dialect: Dear: Dear.",
        "line 7: 153 characters",
    ] == faults_of_sql(source)


def test_texts_of_code_are_found() -> None:
    """Code in a docstring is no sentence, and values in a message are left out."""
    source = (
        '"""One.\n\n    code\n\nTwo.\n"""\n# Three\n# four.\n'
        "def f(a):\n"
        '    """Five.\n\n    Args:\n        a: Six\n            seven.\n        b: It.\n    """\n'
        '    raise ValueError(f"{a} is" " bad")  # Eight.\n'
    )

    expected = ["One.", "Two.", "Three four.", "Five.", "Six seven.", "It.", "x is bad", "Eight."]
    assert sorted(expected) == sorted(text for _, text in texts_of_code(source))


def test_faults_of_a_module_are_named() -> None:
    """These are dialect, undocumented arguments and long sentences."""
    source = f'def f(a):\n    """Do.\n\n    Args:\n        a: It.\n    """\n    # Told.\n    g("{"word " * 31}")\n'

    found = faults_of_code(source)
    assert ["dialect: Told", "documents nothing", "31 words"] == [
        fault.split(": ", 1)[1].rsplit(":", 1)[0] for fault in found
    ]


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
    """Only whole words count, and none of the usual phrases."""
    assert expected == [found[0] for found in DIALECT.finditer(sentence)]


def test_the_faults_of_a_page_are_named() -> None:
    """Each limit has its own sentence. Cells of tables count towards the length, not towards the average."""
    long = f"Word {'word ' * 40}end."

    assert [f"42 words: {long}", "42.0 words on average"] == faults(long)
    assert [f"42 words: {long}"] == faults(f"Short.\n\n| a | {long} |")
    assert ["dialect: dear: A dear one."] == faults("A dear one.")
