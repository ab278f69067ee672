"""The public names are those of `asyncq/__init__.py`, and they are what they say."""

import ast
import inspect
import pickle
from pathlib import Path

import msgspec

import asyncq
from asyncq.domain import errors
from asyncq.domain.events import Event

MODULE = ast.parse(Path(asyncq.__file__).read_text())
# Of classes and functions; a constant has no name of its own.
NAMES = [name for name in asyncq.__all__ if not name.isupper()]
IMPORTED = [alias.name for node in MODULE.body if isinstance(node, ast.ImportFrom) for alias in node.names]


def in_order(names: list[str]) -> list[str]:
    """The names in the order in which they must be listed."""
    return sorted(names, key=lambda name: (not name.isupper(), name))


def test_the_public_names_are_sorted() -> None:
    """The order is that of linters: constants first, then capitals."""
    assert in_order(asyncq.__all__) == asyncq.__all__


def test_the_public_names_are_those_that_are_imported() -> None:
    """A name that is imported and not listed, or the other way round, is public for some tools only."""
    assert in_order(IMPORTED) == asyncq.__all__


def test_nothing_else_looks_public() -> None:
    """The other public attributes are imported sub-packages."""
    others = vars(asyncq).keys() - set(asyncq.__all__)

    assert [] == [name for name in others if not name.startswith("_") and not inspect.ismodule(vars(asyncq)[name])]


def test_every_event_is_a_public_name() -> None:
    """Observers say which ones they want."""
    events = {kind.__name__ for kind in [Event, *Event.__subclasses__(), *asyncq.JobEvent.__subclasses__()]}

    assert set() == events - set(asyncq.__all__)


def test_every_error_is_a_public_name() -> None:
    """Otherwise nobody could catch it. Signals of handlers are public too; two bases are not."""
    raised = {name for name, kind in vars(errors).items() if inspect.isclass(kind) and issubclass(kind, Exception)}

    assert {"HandlerSignal", "_Copied"} == raised - set(asyncq.__all__)


def test_a_public_name_belongs_to_asyncq() -> None:
    """Tracebacks, `help()` and pickles show the name that users write."""
    things = {name: getattr(asyncq, name) for name in NAMES}

    assert [("asyncq", name) for name in NAMES] == [(each.__module__, each.__name__) for each in things.values()]


def test_a_public_name_is_found_by_pickle() -> None:
    """`multiprocessing` and caches find classes by module and name."""
    things = [getattr(asyncq, name) for name in NAMES]

    assert [] == [each for each in things if each is not pickle.loads(pickle.dumps(each))]


def test_the_annotations_of_a_public_struct_can_be_read() -> None:
    """msgspec resolves them in the module that the class claims."""
    for kind in [asyncq.Added, asyncq.Job, *asyncq.JobEvent.__subclasses__()]:
        assert msgspec.json.Decoder(kind) is not None
