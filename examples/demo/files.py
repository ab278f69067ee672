"""Counts Python files, by rules that give the same figures for the same bytes everywhere.

    lines      ended by \\n, \\r or \\r\\n; a last line without an end counts too
    words      runs of bytes between ASCII white space
    imports    import statements, at any depth
    functions  `def` and `async def`, methods and inner functions too: from the line of `def` (without decorators) to
               the last line of the body

A file that cannot be read, decoded or parsed has a problem instead of imports and functions.
"""

from __future__ import annotations

import ast
import io
import os
import sysconfig
import threading
import tokenize
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import msgspec

STDLIB = Path(sysconfig.get_path("stdlib"))
LEFT_OUT = {"site-packages", "dist-packages"}
LONGEST = 5

# Threads of Python 3.11 that parse at the same time share a depth counter, and may fail (python/cpython#106905).
_parsing = threading.Lock()
_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")  # the fields with the statements in a statement


class Function(msgspec.Struct, frozen=True):
    """A function of a file: its line, its dotted name, its length in lines."""

    line: int
    name: str
    lines: int


class Count(msgspec.Struct, frozen=True):
    """The figures of one file; `functions` are the longest ones, at most `LONGEST`, the longest first."""

    lines: int = 0
    words: int = 0
    imports: int = 0
    functions: tuple[Function, ...] = ()
    problem: str | None = None


def python_files() -> list[str]:
    """Find the Python files of the running interpreter's standard library.

    Returns:
        Their paths relative to `STDLIB`, with slashes, sorted; without installed packages.
    """
    found: list[str] = []
    for folder, folders, names in os.walk(STDLIB):
        folders[:] = [name for name in folders if name not in LEFT_OUT]
        paths = (Path(folder, name) for name in names if name.endswith(".py"))
        found += [path.relative_to(STDLIB).as_posix() for path in paths if path.is_file()]
    return sorted(found)


def package_of(file: str) -> str:
    """The package of a file: its folder with dots, or `(top level)`."""
    return ".".join(PurePosixPath(file).parent.parts) or "(top level)"


def count(path: Path) -> Count:
    """Count one file, by the rules at the top.

    Args:
        path: The file.

    Returns:
        The figures.
    """
    try:
        data = path.read_bytes()
    except OSError:
        return Count(problem="cannot be read")
    lines, words = len(data.splitlines()), len(data.split())
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        data.decode(encoding)
    except (SyntaxError, UnicodeDecodeError):
        return Count(lines, words, problem="does not decode")
    try:
        with _parsing:
            tree = ast.parse(data)
    except (SyntaxError, ValueError, RecursionError):
        return Count(lines, words, problem="does not parse")
    functions: list[Function] = []
    imports = 0
    for name, node in _statements(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            functions.append(Function(node.lineno, name, (node.end_lineno or node.lineno) - node.lineno + 1))
        elif isinstance(node, ast.Import | ast.ImportFrom):
            imports += 1
    longest = sorted(functions, key=lambda function: (-function.lines, function.line))[:LONGEST]
    return Count(lines, words, imports, tuple(longest))


def _statements(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """Yield every statement, with the dotted name of the function or class that it is or is in.

    Expressions contain neither functions nor imports, and most nodes are expressions: they are skipped.
    """
    waiting: list[tuple[str, ast.AST]] = [("", tree)]
    while waiting:
        outer, node = waiting.pop()
        for block in _BLOCKS:
            for inner in getattr(node, block, ()):
                name = outer
                if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                    name = f"{outer}.{inner.name}" if outer else inner.name
                waiting.append((name, inner))
                yield name, inner
