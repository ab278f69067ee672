"""Public docstrings describe arguments, results, errors, and the state after a cancellation."""

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, is_typeddict

import msgspec

import asyncq
from asyncq.domain.events import Event


class Documented(NamedTuple):
    """A public function or method, with the docstring that documents its arguments."""

    name: str
    function: Callable[..., Any]
    words: str


def is_ours(thing: Any) -> bool:
    """Whether it was written here, and not inherited from the standard library."""
    return getattr(inspect.unwrap(thing), "__module__", "").startswith("asyncq")


def methods_of(kind: type) -> Iterator[tuple[str, Any]]:
    """The public methods and properties of a class, those of our base classes included."""
    for base in reversed(kind.__mro__):
        if is_ours(base):
            yield from ((name, item) for name, item in vars(base).items() if not name.startswith("_"))


def functions() -> Iterator[Documented]:
    """All public functions and methods."""
    for name in asyncq.__all__:
        thing = getattr(asyncq, name)
        if inspect.isfunction(thing):
            yield Documented(name, thing, thing.__doc__ or "")
        elif inspect.isclass(thing):
            for method, item in dict(methods_of(thing)).items():
                if inspect.isfunction(item):
                    yield Documented(f"{name}.{method}", item, item.__doc__ or "")


def classes() -> Iterator[type]:
    """All public classes."""
    return (thing for thing in (getattr(asyncq, name) for name in asyncq.__all__) if inspect.isclass(thing))


FUNCTIONS = list(functions())
CLASSES = list(classes())


def section(words: str, title: str) -> str:
    """A section of a docstring, without its title."""
    found = re.search(rf"^{title}:\n((?:[ ].*\n|\n)*)", textwrap.dedent(inspect.cleandoc(words)) + "\n", re.MULTILINE)
    return found[1] if found else ""


def entries(words: str, title: str) -> set[str]:
    """The names that a section explains."""
    return set(re.findall(r"^    \*{0,2}(\w+): \S", section(words, title), re.MULTILINE))


def parameters_of(function: Callable[..., Any]) -> set[str]:
    """The names of its parameters."""
    return inspect.signature(function).parameters.keys() - {"self", "cls"}


def refers(words: str) -> bool:
    """Whether it only names the method that it is an instance of."""
    return bool(re.fullmatch(r"See `[\w.]+`\.", words))


def is_protocol(kind: type) -> bool:
    """Whether it only describes code that users write."""
    return getattr(kind, "_is_protocol", False)


def body_of(function: Callable[..., Any]) -> ast.AST:
    """The source of a function, parsed."""
    return ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function))))


def is_context_manager(function: Callable[..., Any]) -> bool:
    """Whether it is written as a generator with a decorator of contextlib."""
    written = inspect.unwrap(function)
    return written is not function and (inspect.isasyncgenfunction(written) or inspect.isgeneratorfunction(written))


def test_a_public_name_has_a_docstring() -> None:
    """Its first sentence ends with a full stop, a colon or a semicolon."""
    documents = {name: inspect.getdoc(getattr(asyncq, name)) or "" for name in asyncq.__all__ if not name.isupper()}
    first = {name: words.partition("\n\n")[0] for name, words in documents.items()}

    assert {} == {name: words for name, words in first.items() if not re.search(r"\w.*[.;:]$", words, re.DOTALL)}


def test_the_public_methods_and_properties_of_a_class_have_docstrings() -> None:
    """The docstring adds units and costs, which a name cannot express."""
    assert [] == [
        (kind, name)
        for kind in CLASSES
        for name, item in methods_of(kind)
        if (inspect.isfunction(item) or isinstance(item, property | classmethod | staticmethod)) and not item.__doc__
    ]


def arguments_explained_for(documented: Documented) -> set[str]:
    """The arguments that a docstring has to explain."""
    # `task` passes its options on to the class.
    explained_there = asyncq.Task if documented.function is asyncq.task else documented.function
    return set() if refers(documented.words) else parameters_of(explained_there)


def test_the_arguments_of_a_function_are_explained() -> None:
    """Each argument is documented with unit and default, and no other is."""
    expected = {each.name: arguments_explained_for(each) for each in FUNCTIONS}

    assert expected == {each.name: entries(each.words, "Args") for each in FUNCTIONS}


def answer_to_explain(documented: Documented) -> str | None:
    """The section in which a docstring documents the returned or yielded value."""
    answer = str(inspect.signature(documented.function).return_annotation)
    if answer in ("None", "<class 'NoneType'>") or refers(documented.words):
        return None
    return "Yields" if is_context_manager(documented.function) else "Returns"


def test_the_result_of_a_function_is_documented() -> None:
    """A function that returns nothing has no such section."""
    expected = {each.name: answer_to_explain(each) for each in FUNCTIONS}
    found = {
        each.name: next((title for title in ("Yields", "Returns") if section(each.words, title)), None)
        for each in FUNCTIONS
    }

    assert expected == found


def errors_raised_by(function: Callable[..., Any]) -> set[str]:
    """The names of the errors in the `raise` statements of a function."""
    nodes = ast.walk(body_of(function))
    raised = {ast.unparse(node.exc).partition("(")[0] for node in nodes if isinstance(node, ast.Raise) and node.exc}
    return {name for name in raised if name[0].isupper()}


def test_errors_that_a_function_raises_itself_are_documented() -> None:
    """Only `raise` statements of its own body are checked. Errors of called functions are up to the author."""
    assert [] == [
        (each.name, name)
        for each in FUNCTIONS
        for name in errors_raised_by(each.function) - entries(each.words, "Raises")
    ]


def waits(function: Callable[..., Any]) -> bool:
    """Whether a function is asynchronous."""
    inner = inspect.unwrap(function)
    return inspect.iscoroutinefunction(inner) or inspect.isasyncgenfunction(inner)


def test_an_async_function_documents_the_state_after_a_cancellation() -> None:
    """The author of a timeout has to know whether the job was added."""
    said = r"(?i)cancelled|at the end of the block"

    assert [] == [each.name for each in FUNCTIONS if waits(each.function) and not re.search(said, each.words)]


# Fields that are clear by their name, explained elsewhere, or set by asyncq alone.
SPEAKING: dict[type, set[str]] = {
    asyncq.Job: {"id", "task", "queue", "priority", "run_at", "max_attempts", "last_error", "created_at", "updated_at"}
    | {"key", "locked_at", "state"},
    asyncq.JobContext: {"claim", "task", "worker_id", "registry", "resources", "settling", "limit"},
    asyncq.JobsContext: {"claims", "task", "worker_id", "registry", "resources", "limit"},
    asyncq.JobSpec: {*asyncq.JobOptions.__annotations__},
    asyncq.CronStatus: {*asyncq.CronItem.__struct_fields__},
    asyncq.Resource: {"function"},
    asyncq.RunInfo: {"claim", "worker_id"},
    asyncq.Task: {"queue", "max_attempts", "priority", "flags", "unique", "singleton", "transactional", "completes"}
    | {"expires", "deadline", "run_in", "keep", "keep_payload", "concurrency", "rate", "fair"},
}


def parts_of(kind: type) -> set[str]:
    """The arguments of a constructor that users call, the fields of a struct. The guide has a table of the events."""
    if issubclass(kind, msgspec.Struct) and not issubclass(kind, Event):
        return {*kind.__struct_fields__}
    if is_typeddict(kind):
        return {*kind.__annotations__}
    if "__init__" in vars(kind) and not issubclass(kind, asyncq.AsyncqError) and not is_protocol(kind):
        return parameters_of(kind)
    return set()


def test_the_fields_of_a_class_are_documented() -> None:
    """Editors show the docstring of the class."""
    explained = {
        kind: entries(kind.__doc__ or "", "Args") | entries(kind.__doc__ or "", "Attributes") for kind in CLASSES
    }

    assert [] == [
        (kind, name) for kind in CLASSES for name in parts_of(kind) - explained[kind] - SPEAKING.get(kind, set())
    ]


def attributes_set_by(function: Callable[..., Any]) -> set[str]:
    """The names in `self.name = ...`."""
    return {
        node.attr
        for node in ast.walk(body_of(function))
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and not node.attr.startswith("_")
    }


def test_the_attributes_of_an_error_are_explained() -> None:
    """Programs read them; no program should have to read sentences."""
    errors = [kind for kind in CLASSES if issubclass(kind, asyncq.AsyncqError) and "__init__" in vars(kind)]

    assert [] == [
        (kind, name)
        for kind in errors
        for name in attributes_set_by(kind.__init__) - entries(kind.__doc__ or "", "Attributes")
    ]


def test_the_scan_sees_a_missing_argument() -> None:
    """A rule whose check sees nothing is no rule."""
    words = """One.

    Args:
        a: The first,
            going on.
        **rest: More: of it.

    Returns:
        It.
    """

    assert ({"a", "rest"}, "    It.\n") == (entries(words, "Args"), section(words, "Returns"))
    assert set() == entries(words, "Raises")
