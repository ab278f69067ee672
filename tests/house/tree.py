"""Python files as syntax trees: the checks of this folder parse each file once."""

import ast
from functools import cache


@cache
def parsed(source: str) -> ast.Module:
    """The syntax tree of a source, which callers must not change."""
    return ast.parse(source)


@cache
def nodes(source: str) -> tuple[ast.AST, ...]:
    """All nodes of a source."""
    return tuple(ast.walk(parsed(source)))
