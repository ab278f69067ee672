"""The page that a newcomer reads first names what exists: files, statements, functions, tables, columns, classes."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
PAGE = CHECKOUT / "docs/architecture.md"
ENTRANCES = ("README.md", "CONTRIBUTING.md")

LINES = 150
COLUMNS = 120
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
DEFINED = re.compile(r"^create (?:or replace )?(?:unlogged )?(?:function|table|view|type) asyncq\.(\w+)", re.MULTILINE)
INDEX = re.compile(r"^create (?:unique )?index (\w+)|\bconstraint (\w+)", re.MULTILINE)
TABLE = re.compile(r"^create (?:unlogged )?table asyncq\.\w+ \(\n(.*?)^\)", re.MULTILINE | re.DOTALL)
COLUMN = re.compile(r"^  (\w+) (?!key\b)[a-z]", re.MULTILINE)


@cache
def sql_names() -> frozenset[str]:
    """Statements, functions, tables, views, types, indexes, constraints and columns."""
    names = {path.stem for path in (CHECKOUT / "sql/queries").rglob("*.sql")} | {"_migrations"}
    for path in (CHECKOUT / "sql").rglob("*.sql"):
        text = path.read_text()
        names.update(DEFINED.findall(text))
        names.update(name for found in INDEX.findall(text) for name in found if name)
        names.update(column for body in TABLE.findall(text) for column in COLUMN.findall(body))
    return frozenset(names)


@cache
def defined(file: Path) -> frozenset[str]:
    """The functions, classes and methods of a Python file; a method as `Class.method`."""
    names: set[str] = set()
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            inner = (each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))
            names.update(f"{node.name}.{each.name}" for each in inner)
    return frozenset(names)


def exists(name: str) -> bool:
    """Whether a name is a path of the checkout, `module.Class` of the package, or a name below `sql/`."""
    if "/" in name or name.endswith((".md", ".sql")):
        return (CHECKOUT / name).exists()
    module, dot, inner = name.partition(".")
    if dot:
        return any(inner in defined(file) for file in (CHECKOUT / "asyncq").rglob(f"{module}.py"))
    return name in sql_names()


def missing(page: str) -> list[str]:
    """The names between backticks that do not exist."""
    return [name for name in re.findall(r"`([^`]+)`", FENCED.sub("", page)) if not exists(name)]


def test_each_name_on_the_page_exists() -> None:
    """A page with stale names misleads its readers."""
    assert [] == missing(PAGE.read_text())


def test_the_page_is_one_page() -> None:
    """It is read in one sitting, in any editor."""
    lines = PAGE.read_text().splitlines()

    assert len(lines) <= LINES
    assert [] == [line for line in lines if len(line) > COLUMNS and not line.startswith("|")]


def test_its_links_lead_to_files() -> None:
    """It says where to read on."""
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", PAGE.read_text())

    assert targets
    assert [] == [target for target in targets if not (PAGE.parent / target).is_file()]


@pytest.mark.parametrize("entrance", ENTRANCES)
def test_a_newcomer_is_sent_there(entrance: str) -> None:
    """A newcomer must be able to find the page."""
    assert "docs/architecture.md" in (CHECKOUT / entrance).read_text()


def test_names_and_inventions_are_distinguished() -> None:
    """A rule whose check sees nothing is no rule."""
    real = "`sql/queries` `_jobs` `locked_by` `beat` `_is_live` `jobs_key` `client.Client.add_job` `retry.as_policy`"
    made_up = ["sql/nothing.sql", "_nothing", "client.Client.nothing", "nothing.Client", "primary", "not null"]

    assert [] == missing(f"```\n`nothing`\n```\n{real}")
    assert made_up == missing(" ".join(f"`{name}`" for name in made_up))
