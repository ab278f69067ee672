"""No file, class, function or constructor grows beyond what can be read in one go; there is no list of exceptions."""

import ast
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from textwrap import dedent

import pytest

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


def lines_of_code(source: str) -> int:
    """Count the lines that are neither blank, nor a comment, nor part of a docstring."""
    prose: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, WITH_DOCSTRING) and ast.get_docstring(node, clean=False) is not None:
            prose.update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    lines = enumerate(source.splitlines(), 1)
    return sum(1 for number, line in lines if number not in prose and line.strip() and not line.strip().startswith("#"))


def bodies(source: str) -> Iterator[tuple[str, int]]:
    """Yield each function's name, and the lines from its first statement to its last, the docstring left out."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, Function):
            body = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
            yield node.name, body[-1].end_lineno - body[0].lineno + 1 if body else 0


def classes(source: str) -> Iterator[tuple[str, int]]:
    """Yield each class's name, and its lines of code, counted as those of a file; its `class` lines are among them."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef):
            lines = source.splitlines()[node.lineno - 1 : node.end_lineno]
            yield node.name, lines_of_code(dedent("\n".join(lines)))


def constructors(source: str) -> Iterator[tuple[str, int]]:
    """Yield each class's name, and how many arguments its `__init__` takes by position."""
    for node in ast.walk(ast.parse(source)):
        for each in node.body if isinstance(node, ast.ClassDef) else ():
            if isinstance(each, ast.FunctionDef) and each.name == "__init__":
                yield node.name, len(each.args.posonlyargs) + len(each.args.args) - 1  # self


@pytest.mark.parametrize("path", FILES, ids=str)
def test_a_file_has_at_most_400_lines_of_code(path: Path) -> None:
    """A longer file has more than one job."""
    assert lines_of_code((CHECKOUT / path).read_text()) <= LINES_OF_A_FILE


@pytest.mark.parametrize("path", FILES, ids=str)
def test_a_function_has_at_most_60_lines(path: Path) -> None:
    """A longer function hides a decision that could be tested by itself."""
    assert [] == [body for body in bodies((CHECKOUT / path).read_text()) if body[1] > LINES_OF_A_BODY]


@pytest.mark.parametrize("path", FILES, ids=str)
def test_a_class_has_at_most_250_lines_of_code(path: Path) -> None:
    """A longer class has more than one responsibility."""
    assert [] == [each for each in classes((CHECKOUT / path).read_text()) if each[1] > LINES_OF_A_CLASS]


@pytest.mark.parametrize("path", FILES, ids=str)
def test_a_constructor_takes_at_most_6_arguments_by_position(path: Path) -> None:
    """A reader of a longer call has to count to know which argument is which."""
    assert [] == [each for each in constructors((CHECKOUT / path).read_text()) if each[1] > POSITIONAL_PARAMETERS]


def test_the_median_file_of_the_package_has_less_than_150_lines_of_code() -> None:
    """The limit is no target: most files are far below it."""
    counts = [lines_of_code((CHECKOUT / path).read_text()) for path in FILES if path.parts[0] == "asyncq"]

    assert median(counts) < LINES_OF_THE_MEDIAN_FILE


def test_blank_lines_comments_and_docstrings_are_not_counted() -> None:
    """A limit that prose counts towards would be a reason to explain less."""
    source = '"""One.\n\nTwo.\n"""\n\n# three\ndef four() -> int:\n    """Five."""\n    # six\n\n    return 7\n'

    assert (2, [("four", 1)]) == (lines_of_code(source), list(bodies(source)))


def test_classes_and_their_constructors_are_measured() -> None:
    """Docstrings do not count; arguments that are passed by name do not either."""
    source = 'class One:\n    """Two."""\n\n    def __init__(self, a, b, *, c) -> None:\n        self.a = a  # three\n'

    assert ([("One", 3)], [("One", 2)]) == ([*classes(source)], [*constructors(source)])
