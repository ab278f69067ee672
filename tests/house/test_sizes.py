"""No file, class, function or constructor grows too large to be read in one go; there are no exceptions."""

import ast
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

from tests.house.tree import nodes

CHECKOUT = Path(__file__).parents[2]
FOLDERS = ("asyncq", "tools", "benchmarks", "examples")
FILES = sorted(path.relative_to(CHECKOUT) for folder in FOLDERS for path in (CHECKOUT / folder).rglob("*.py"))

LINES_OF_A_FILE = 400
LINES_OF_A_CLASS = 250
LINES_OF_A_BODY = 60
LINES_OF_THE_MEDIAN_FILE = 150
POSITIONAL_PARAMETERS = 6

Function = ast.FunctionDef | ast.AsyncFunctionDef
WITH_DOCSTRING = (ast.Module, ast.ClassDef, *Function.__args__)


@cache
def code(source: str) -> list[int]:
    """The numbers of the lines that are neither blank, nor a comment, nor part of a docstring."""
    prose: set[int] = set()
    for node in nodes(source):
        if isinstance(node, WITH_DOCSTRING) and ast.get_docstring(node, clean=False) is not None:
            prose.update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    lines = enumerate(source.splitlines(), 1)
    return [n for n, line in lines if n not in prose and line.strip() and not line.strip().startswith("#")]


def lines_of_code(source: str) -> int:
    """Count the lines of code."""
    return len(code(source))


def bodies(source: str) -> Iterator[tuple[str, int]]:
    """Yield each function's name, and the lines from its first statement to its last, the docstring left out."""
    for node in nodes(source):
        if isinstance(node, Function):
            body = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
            yield node.name, body[-1].end_lineno - body[0].lineno + 1 if body else 0


def classes(source: str) -> Iterator[tuple[str, int]]:
    """Yield each class's name, and its lines of code, counted as those of a file; its `class` lines are among them."""
    for node in nodes(source):
        if isinstance(node, ast.ClassDef):
            yield node.name, sum(1 for line in code(source) if node.lineno <= line <= node.end_lineno)


def constructors(source: str) -> Iterator[tuple[str, int]]:
    """Yield each class's name, and how many arguments its `__init__` takes by position."""
    for node in nodes(source):
        for each in node.body if isinstance(node, ast.ClassDef) else ():
            if isinstance(each, ast.FunctionDef) and each.name == "__init__":
                yield node.name, len(each.args.posonlyargs) + len(each.args.args) - 1  # self


def larger(limit: int, sizes: Callable[[str], Iterator[tuple[str, int]]]) -> list[Any]:
    """The file, the name and the size of each thing of the checkout that is larger than a limit."""
    return [(path, *each) for path in FILES for each in sizes((CHECKOUT / path).read_text()) if each[1] > limit]


def test_a_file_has_at_most_400_lines_of_code() -> None:
    """A longer file has more than one job."""
    assert [] == larger(LINES_OF_A_FILE, lambda source: iter([("file", lines_of_code(source))]))


def test_a_function_has_at_most_60_lines() -> None:
    """A longer function hides a decision that could be tested by itself."""
    assert [] == larger(LINES_OF_A_BODY, bodies)


def test_a_class_has_at_most_250_lines_of_code() -> None:
    """A longer class has more than one responsibility."""
    assert [] == larger(LINES_OF_A_CLASS, classes)


def test_a_constructor_takes_at_most_6_arguments_by_position() -> None:
    """A reader of a longer call has to count to know which argument is which."""
    assert [] == larger(POSITIONAL_PARAMETERS, constructors)


def test_the_median_file_of_the_package_has_less_than_150_lines_of_code() -> None:
    """The limit is no target: most files are far below it."""
    counts = [lines_of_code((CHECKOUT / path).read_text()) for path in FILES if path.parts[0] == "asyncq"]

    assert median(counts) < LINES_OF_THE_MEDIAN_FILE


def test_blank_lines_comments_and_docstrings_are_not_counted() -> None:
    """A limit that prose counts towards would be a reason to explain less."""
    source = '"""One.\n\nTwo.\n"""\n\n# three\ndef four() -> int:\n    """Five."""\n    # six\n\n    return 7\n'

    assert (2, [("four", 1)]) == (lines_of_code(source), list(bodies(source)))


def test_classes_and_their_constructors_are_measured() -> None:
    """Docstrings and keyword-only arguments do not count."""
    source = 'class One:\n    """Two."""\n\n    def __init__(self, a, b, *, c) -> None:\n        self.a = a  # three\n'

    assert ([("One", 3)], [("One", 2)]) == ([*classes(source)], [*constructors(source)])
