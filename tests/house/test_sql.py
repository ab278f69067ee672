"""SQL is held to limits too, and a function is found by a simple rule."""

import re
from collections import defaultdict
from functools import cache
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
SQL = CHECKOUT / "sql"
FILES = sorted(path.relative_to(CHECKOUT) for path in SQL.rglob("*.sql"))
FUNCTIONS = [path for path in FILES if path.parts[1] == "functions"]

LINES_OF_A_STATEMENT = 120
# The fetch of partitions finds, locks, counts and claims in one statement: with two, each would have its own snapshot.
LINES_OF_THE_FETCH = 320
LINES_OF_A_FILE = 200
NEW = r"^(?=create or replace function )"
CREATED = re.compile(r"create or replace function asyncq\.(\w+)")
CALLED = re.compile(r"(?<!into )\basyncq\.(\w+)\b")


def lines_of_code(text: str) -> int:
    """Count the lines that are neither blank nor a comment."""
    return sum(1 for line in text.splitlines() if line.strip() and not line.strip().startswith("--"))


def pieces(text: str) -> list[str]:
    """The statements of a text: each function alone, other statements up to a semicolon at the end of a line."""
    if "create or replace function" in text:
        return re.split(NEW, text, flags=re.MULTILINE)
    return re.split(r"(?<=;)$", text, flags=re.MULTILINE)


def limit(path: Path) -> int:
    """How many lines of code a statement of a file may have."""
    return LINES_OF_THE_FETCH if path.name == "fetch_partitions.sql" else LINES_OF_A_STATEMENT


@cache
def created() -> dict[str, Path]:
    """Function -> its file."""
    return {name: path for path in FUNCTIONS for name in CREATED.findall((CHECKOUT / path).read_text())}


@cache
def callers() -> dict[str, set[Path]]:
    """Function -> the other files of sql/ and of the package in which it is named; comments do not count."""
    found: dict[str, set[Path]] = defaultdict(set)
    for path in [*SQL.rglob("*.sql"), *(CHECKOUT / "asyncq").rglob("*.py")]:
        if path.name != "roles.sql":
            for name in CALLED.findall(re.sub(r"--.*", "", path.read_text())):
                found[name].add(path.relative_to(CHECKOUT))
    return {name: found[name] - {path} for name, path in created().items()}


def test_a_statement_has_at_most_120_lines_of_code() -> None:
    """A longer statement is hard to read."""
    assert [] == [
        (path, lines)
        for path in FILES
        for piece in pieces((CHECKOUT / path).read_text())
        if (lines := lines_of_code(piece)) > limit(path)
    ]


def test_a_file_of_functions_has_at_most_200_lines_of_code() -> None:
    """A longer one has more than one topic."""
    assert [] == [path for path in FUNCTIONS if lines_of_code((CHECKOUT / path).read_text()) > LINES_OF_A_FILE]


def test_the_first_function_of_a_file_has_its_name() -> None:
    """The others are its helpers, or belong to it."""
    names = {path: CREATED.findall((CHECKOUT / path).read_text()) for path in FUNCTIONS}

    assert [] == [path for path, found in names.items() if path.stem != found[0].removeprefix("_")]
    assert [] == [path for path, found in names.items() if len(found) != len(set(found))]


def test_each_private_function_is_called() -> None:
    """Dead code is read as if it were alive."""
    text = {path: (CHECKOUT / path).read_text() for path in FUNCTIONS}

    assert [] == [
        name
        for name, path in created().items()
        if name.startswith("_") and not callers()[name] and len(re.findall(rf"asyncq\.{name}\b", text[path])) == 1
    ]


def test_helpers_of_one_file_are_in_it() -> None:
    """A file of their own is for helpers that several files need, or that would make their caller's file too long."""
    lines = {path: lines_of_code((CHECKOUT / path).read_text()) for path in FUNCTIONS}
    outside: dict[Path, set[Path]] = defaultdict(set)
    for name, path in created().items():
        outside[path] |= callers()[name] if name.startswith("_") else {Path("everybody")}
    only = {path: next(iter(those)) for path, those in outside.items() if len(those) == 1}

    assert [] == [path for path, it in only.items() if it in lines and lines[path] + lines[it] <= LINES_OF_A_FILE]


def test_comments_and_blank_lines_are_not_counted() -> None:
    """A limit that prose counts towards would be a reason to explain less."""
    text = "-- One.\n\ncreate or replace function a\n  -- two\n  x;\n\n-- Three.\ncreate or replace function b;\n"

    assert [0, 2, 1] == [lines_of_code(piece) for piece in pieces(text)]
    assert [2, 1, 0] == [lines_of_code(piece) for piece in pieces("create\ntable;\ncreate index;")]
