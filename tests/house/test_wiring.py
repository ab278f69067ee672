"""A part gets its callbacks when it is made: nothing assigns a callback to an attribute of another object.

Two rules, both by the syntax:

- `part.attribute = callback` is forbidden, for any object but `self` or `cls`. A callback is a lambda, a function of
  the same file, an argument declared as `Callable`, or an attribute that is called like a method of the package.
- An attribute that is declared as `Callable` gets an argument of its method, never a placeholder for a later value: no
  constant, and no function of its module.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.tree import nodes

PACKAGE = Path(__file__).parents[2] / "asyncq"
FILES = sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py") if "testing" not in path.parts)

Function = ast.FunctionDef | ast.AsyncFunctionDef


def methods(source: str) -> set[str]:
    """The names of the functions and methods in a file, properties left out."""
    return {
        node.name
        for node in nodes(source)
        if isinstance(node, Function) and not any("property" in ast.unparse(each) for each in node.decorator_list)
    }


def assigned(source: str) -> Iterator[tuple[ast.Attribute, ast.expr]]:
    """Yield each attribute that is assigned, with the value that it gets."""
    for node in nodes(source):
        if isinstance(node, ast.AnnAssign) and node.value is not None and isinstance(node.target, ast.Attribute):
            yield node.target, node.value
        for target in node.targets if isinstance(node, ast.Assign) else ():
            if isinstance(target, ast.Attribute):
                yield target, node.value
            elif isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = zip(target.elts, node.value.elts, strict=False)
                yield from ((each, value) for each, value in pairs if isinstance(each, ast.Attribute))


def callable_arguments(source: str) -> set[str]:
    """The names of the arguments in a file that are declared as `Callable`."""
    arguments = (node for node in nodes(source) if isinstance(node, ast.arg) and node.annotation)
    return {each.arg for each in arguments if ast.unparse(each.annotation).startswith("Callable[")}


def bound_late(source: str, known: set[str]) -> list[str]:
    """The assignments of callbacks to attributes of other objects; the known methods are those of the package."""
    names = methods(source) | callable_arguments(source)

    def is_callback(value: ast.expr) -> bool:
        is_known = isinstance(value, ast.Name) and value.id in names
        return is_known or isinstance(value, ast.Lambda) or (isinstance(value, ast.Attribute) and value.attr in known)

    return [
        f"{ast.unparse(target)} = {ast.unparse(value)}"
        for target, value in assigned(source)
        if ast.unparse(target.value) not in ("self", "cls") and is_callback(value)
    ]


def placeholders(source: str) -> list[str]:
    """The attributes that are declared as callable and get another value than an argument."""
    return [
        ast.unparse(node)
        for function in nodes(source)
        if isinstance(function, Function)
        for node in ast.walk(function)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Attribute) and node.value is not None
        if ast.unparse(node.annotation).startswith("Callable[")
        if ast.unparse(node.value) not in {each.arg for each in [*function.args.args, *function.args.kwonlyargs]}
    ]


def test_no_callback_is_assigned_to_another_object() -> None:
    """Such a part works only after something far away has completed it, and its reader cannot see what it calls."""
    sources = {path: (PACKAGE / path).read_text() for path in FILES}
    known = {name for source in sources.values() for name in methods(source)}

    assert [] == [(path, late) for path, source in sources.items() for late in bound_late(source, known)]


def test_no_attribute_waits_for_its_callback() -> None:
    """A placeholder hides that the wiring has been forgotten."""
    assert [] == [(path, each) for path in FILES for each in placeholders((PACKAGE / path).read_text())]


@pytest.mark.parametrize(
    ("statement", "is_late"),
    [
        ("fetcher.give_back = completer.give_back", True),
        ("self.offer.wake = self.wake", True),
        ("a.give_back, b.wake = completer.give_back, 1", True),
        ("stuck.replace = lambda: None", True),
        ("def f(wake: Callable[[], None]):\n    membership.rejoined = wake", True),
        ("def wake(): pass\nmembership.rejoined = wake", True),
        ("self.give_back = give_back", False),
        ("run.ended_at = perf_counter()", False),
        ("run.error = error", False),
        ("self.wake = wake", False),
    ],
)
def test_the_scan_sees_callbacks_that_are_assigned_late(statement: str, *, is_late: bool) -> None:
    """A rule whose check sees nothing is no rule."""
    assert is_late == bool(bound_late(statement, {"give_back", "wake"}))


def test_the_scan_sees_placeholders() -> None:
    """Only the second one of the two attributes gets an argument."""
    source = "def f(self, a):\n    self.x: Callable[[], bool] = _never\n    self.y: Callable[[], bool] = a\n"

    assert ["self.x: Callable[[], bool] = _never"] == placeholders(source)
