"""A task is a function to other libraries: to inspect, to pickle and copy, and to frameworks that run functions."""

import asyncio
import copy
import functools
import inspect
import itertools
import pickle
import subprocess
import sys
import types
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from fastapi import BackgroundTasks, FastAPI
from starlette._utils import is_async_callable

from asyncq.domain.errors import TaskError
from asyncq.domain.signature import Context
from asyncq.domain.task import Task, task

RAN: list[str] = []


@task(queue="mail")
async def send(to: str, ctx: Context | None = None, *, loud: bool = False) -> int:
    """Send something."""
    RAN.append(to)
    return 5


@task
def resize(path: str) -> None:
    """Resize an image."""
    RAN.append(path)


class Namespace:
    @staticmethod
    @task
    async def inner(x: int) -> int:
        """A task in a class."""
        return x

    @task
    @staticmethod
    async def outer(x: int) -> int:
        """The decorators in the other order."""
        return x

    @task
    async def bare(x: int) -> int:  # noqa: N805
        """A class as a namespace."""
        return x


class Runner:
    async def __call__(self, x: int) -> int:
        return x

    async def method(self, x: int) -> int:
        """A method."""
        return x

    @classmethod
    async def class_method(cls, x: int) -> int:
        return x


other_name = task(name="other")(send.handler)
renamed = send.renamed("mail/send")


def test_a_task_has_the_attributes_of_its_function() -> None:
    """Those that functools.update_wrapper copies."""
    function = send.handler

    assert ("send", "send", __name__, "Send something.", function) == (
        send.__name__,
        send.__qualname__,
        send.__module__,
        send.__doc__,
        send.__wrapped__,  # type: ignore[attr-defined]
    )
    assert inspect.signature(function) == inspect.signature(send)
    assert function is inspect.unwrap(send)
    assert "Send something." == inspect.getdoc(send)


def test_the_attributes_of_a_function_do_not_take_the_place_of_those_of_the_task() -> None:
    """A decorator below may have left any of them."""

    def function(x: int) -> None: ...

    function.name = function.job = "taken"  # type: ignore[attr-defined]
    made = task(function)

    assert ("function", '{"x":1}') == (made.name, made.job(1).payload)


@pytest.mark.parametrize(
    ("handler", "name"),
    [
        (functools.partial(send.handler, "x"), "send"),
        (functools.partial(functools.partial(send.handler), "x"), "send"),
        (Runner(), "Runner"),
        (Runner().method, "method"),
        (Runner.class_method, "class_method"),
    ],
    ids=["partial", "partial of partial", "object", "method", "class method"],
)
def test_every_handler_looks_like_a_function(handler: Callable[..., Any], name: str) -> None:
    """Objects and partials have a name, a signature and the mark too."""
    made = task(handler)

    assert name == made.__name__
    assert inspect.signature(handler) == inspect.signature(made)
    assert inspect.iscoroutinefunction(made)


# The coroutine mark

ASKED: list[Callable[[Any], Any]] = [inspect.iscoroutinefunction, asyncio.iscoroutinefunction, is_async_callable]


@pytest.mark.parametrize("ask", ASKED, ids=["inspect", "asyncio", "starlette"])
@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (send, True),
        (renamed, True),
        (copy.copy(send), True),
        (functools.partial(send, "x"), True),
        (Namespace.inner, True),
        (Namespace.outer, True),
        (task(functools.partial(send.handler, "x")), True),
        (task(Runner()), True),
        (resize, False),
        (task(functools.partial(resize.handler, "x")), False),
    ],
    ids=itertools.count(),
)
@pytest.mark.filterwarnings("ignore:'asyncio.iscoroutinefunction' is deprecated:DeprecationWarning")
def test_an_async_task_is_a_coroutine_function(ask: Callable[[Any], bool], made: Any, expected: bool) -> None:
    """A caller that treats it as a plain function drops the coroutine."""
    assert expected is ask(made)


async def test_a_framework_runs_a_task_in_the_background() -> None:
    """Otherwise it answered 200, and nothing ran."""
    app = FastAPI()

    @app.post("/")
    async def add(background: BackgroundTasks) -> None:
        background.add_task(send, "async", loud=True)
        background.add_task(resize, "sync")

    RAN.clear()
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as http:
        answer = await http.post("/")

    assert 200 == answer.status_code
    assert ["async", "sync"] == RAN


async def test_a_framework_serves_a_task_as_an_endpoint() -> None:
    """It reads the signature."""
    app = FastAPI()
    app.get("/", response_model=None)(Namespace.inner)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as http:
        answer = await http.get("/", params={"x": "5"})

    assert (200, 5) == (answer.status_code, answer.json())


# Pickle and copy


@pytest.mark.parametrize("made", [send, resize, Namespace.inner, Namespace.outer, Namespace.bare], ids=repr)
def test_a_task_is_pickled_by_reference(made: Task[...]) -> None:
    """Functions are pickled like this too. A task holds functions of its owner, which cannot be copied."""
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert made is pickle.loads(pickle.dumps(made, protocol))


def test_a_renamed_task_is_pickled_as_that_of_its_name() -> None:
    """The worker renames tasks after their files."""
    again = pickle.loads(pickle.dumps(renamed.renamed("mail/again")))

    assert ("mail/again", send.handler, "mail") == (again.name, again.handler, again.job("x").queue)


def test_a_pickled_task_is_found_in_another_process() -> None:
    """It is found by the name of its module."""
    program = "import pickle, sys; print(pickle.load(sys.stdin.buffer).job('x').payload)"
    done = subprocess.run([sys.executable, "-c", program], input=pickle.dumps(send), capture_output=True, check=True)

    assert b'{"to":"x"}' == done.stdout.strip()


@pytest.mark.parametrize("made", [other_name, task(name="l")(lambda: None)], ids=["another", "lambda"])
def test_a_task_that_its_function_does_not_lead_to_cannot_be_pickled(made: Task[...]) -> None:
    """The reader would get another object, or none."""
    with pytest.raises(pickle.PicklingError, match=r"cannot be pickled: it is looked up as .* which is another object"):
        pickle.dumps(made)


def test_a_task_of_a_function_in_a_function_cannot_be_pickled() -> None:
    """The function itself cannot be pickled either."""

    @task
    def inner() -> None: ...

    with pytest.raises(pickle.PicklingError, match="<locals>"):
        pickle.dumps(inner)


def test_a_deep_copy_of_a_task_is_the_task() -> None:
    """A deep copy of a function is the function too, also inside containers."""
    assert send is copy.deepcopy(send)
    assert {"task": send} == copy.deepcopy({"task": send})


def test_a_copy_of_a_task_is_another_task_with_the_same_handler() -> None:
    """The kit for tests gives it another handler."""
    other = copy.copy(send)

    assert (True, send.handler, send.name) == (other is not send, other.handler, other.name)


# Methods


class Mailer:
    async def send(self, to: str) -> None: ...
    def annotated(self: "Mailer", to: str) -> None: ...
    def positional(self, /, to: str) -> None: ...

    async def of_class(cls, to: str) -> None: ...  # noqa: N805


def passes_on(function: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


@pytest.mark.parametrize(
    "handler",
    [
        Mailer.send,
        Mailer.annotated,
        Mailer.positional,
        Mailer.of_class,
        passes_on(Mailer.send),
        functools.partial(Mailer.send, to="x"),
    ],
    ids=["async", "annotated", "positional", "cls", "wrapped", "partial"],
)
def test_a_method_without_its_object_is_refused(handler: Callable[..., Any]) -> None:
    """Each of its jobs would fail on `self`."""
    with pytest.raises(TaskError, match=r"task '\w+': Mailer\.\w+ is a method, and no payload holds its '(self|cls)'"):
        task(name="t")(handler)


def test_a_decorated_method_is_refused_when_its_class_is_made() -> None:
    """The module cannot be imported."""
    with pytest.raises(TaskError, match=r"Local\.send is a method"):

        class Local:
            @task
            async def send(self, to: str) -> None: ...


def test_a_decorated_class_method_is_refused_in_either_order() -> None:
    """The attribute of the class is no task then."""
    with pytest.raises(TaskError, match=r"Local\.send is a method"):

        class Local:
            @classmethod
            @task
            async def send(cls, to: str) -> None: ...

    with pytest.raises(TaskError, match="got a classmethod; make it a staticmethod"):

        class Other:
            @task  # type: ignore[arg-type]
            @classmethod
            async def send(cls, to: str) -> None: ...


@pytest.mark.parametrize("made", [Namespace.inner, Namespace.outer, Namespace.bare], ids=repr)
async def test_a_static_method_is_a_task(made: Task[...]) -> None:
    """Both orders of the decorators work, even in a class that is only a namespace."""
    assert '{"x":1}' == made.job(1).payload
    assert 1 == await made(1)


def test_a_method_of_an_object_is_a_task() -> None:
    """It has its object."""
    assert '{"x":1}' == task(Runner().method).job(1).payload


def test_a_function_may_have_a_parameter_that_is_called_self() -> None:
    """It is no method."""

    @task
    def save(self: str) -> None: ...

    assert '{"self":"x"}' == save.job("x").payload


def test_a_partial_that_holds_the_object_of_a_method_is_a_task() -> None:
    """No argument is missing."""
    assert '{"to":"x"}' == task(functools.partial(Mailer.send, Mailer())).job("x").payload


# Annotations


def module(text: str) -> types.ModuleType:
    """A module of its own, as a user would write it."""
    made = types.ModuleType("made")
    exec(compile(text, "made", "exec", dont_inherit=True), vars(made))
    return made


HEADER = """
from __future__ import annotations
import functools, inspect
from typing import TYPE_CHECKING, Any
import msgspec
if TYPE_CHECKING:
    from nowhere import Report

class Email(msgspec.Struct):
    to: str
"""


@pytest.mark.parametrize("returns", ["Report", "list[Report]", "Report | None", "not even.(python"])
def test_a_return_type_need_not_be_readable(returns: str) -> None:
    """Only parameters are decoded. An import for type checkers alone once ended a worker."""
    made = module(f"{HEADER}\nasync def handler(email: Email): ...\nhandler.__annotations__['return'] = {returns!r}")
    mine = task(made.handler)

    assert '{"to":"x"}' == mine.job({"to": "x"}).payload
    with pytest.raises(TaskError, match="task 'handler': the annotation of the return type cannot be read"):
        _ = mine.signature.returned


@pytest.mark.parametrize(
    ("returns", "expected"), [("", inspect.Signature.empty), (" -> Email", "Email"), (" -> None", None)]
)
def test_a_return_type_is_read_when_it_is_needed(returns: str, expected: Any) -> None:
    """It is that of the function, as an object."""
    made = module(f"{HEADER}\nasync def handler(email: Email){returns}: ...")

    assert (vars(made).get("Email") if expected == "Email" else expected) == task(made.handler).signature.returned


def test_a_parameter_that_cannot_be_read_is_named() -> None:
    """The return type may be unreadable, a parameter may not."""
    made = module(f"{HEADER}\nasync def handler(day: str, report: Report) -> Report: ...")

    with pytest.raises(
        TaskError, match=r"annotation of parameter 'report' cannot be read: name 'Report'.* TYPE_CHECKING"
    ):
        task(made.handler)


DECORATORS = {
    "__signature__": """
def decorator(function):
    @functools.wraps(function)
    async def wrapper(*args, **kwargs): return await function(*args, **kwargs)
    wrapper.__signature__ = inspect.signature(function)
    return wrapper
""",
    "__signature__ with a parameter more": """
def decorator(function):
    @functools.wraps(function)
    async def wrapper(*args, **kwargs): return await function(*args, **kwargs)
    signature = inspect.signature(function)
    more = inspect.Parameter("more", inspect.Parameter.KEYWORD_ONLY, default=1, annotation="int")
    wrapper.__signature__ = signature.replace(parameters=[*signature.parameters.values(), more])
    return wrapper
""",
    "__signature__ without wraps": """
def decorator(function):
    async def wrapper(*args, **kwargs): return await function(*args, **kwargs)
    wrapper.__signature__ = inspect.signature(function)
    return wrapper
""",
    "partial of a wrapper": """
def decorator(function):
    @functools.wraps(function)
    async def wrapper(*args, **kwargs): return await function(*args, **kwargs)
    return functools.partial(wrapper)
""",
    "an object": """
class decorator:
    def __init__(self, function): self.function, self.__signature__ = function, inspect.signature(function)
    async def __call__(self, *args, **kwargs): return await self.function(*args, **kwargs)
""",
}


@pytest.mark.parametrize("decorator", DECORATORS.values(), ids=DECORATORS)
def test_postponed_annotations_are_read_below_a_decorator(decorator: str) -> None:
    """The decorator may change the signature."""
    made = module(f"{HEADER}{decorator}\n@decorator\nasync def handler(day: str, email: Email) -> Report: ...")
    mine = task(name="t")(made.handler)

    assert '{"day":"x","email":{"to":"y"}}' == mine.job("x", {"to": "y"}).payload
    (day, email), _ = mine.signature.decode('{"day":"x","email":{"to":"y"}}', None)

    assert ("x", made.Email("y")) == (day, email)


def test_a_decorator_of_another_module_may_name_its_own_types() -> None:
    """Its annotations are those of its module, those of the function of the function's."""
    library = module(f"{HEADER}{DECORATORS['__signature__ with a parameter more']}".replace("Email", "Other"))
    made = module(f"{HEADER}\nasync def handler(email: Email, n: int = 0) -> Report: ...")
    wrapped = library.decorator(made.handler)
    wrapped.__signature__ = wrapped.__signature__.replace(
        parameters=[
            parameter.replace(annotation="Other") if parameter.name == "more" else parameter
            for parameter in wrapped.__signature__.parameters.values()
        ]
    )
    mine = task(wrapped)
    (email, _), named = mine.signature.decode('{"email":{"to":"x"},"more":{"to":"y"}}', None)

    assert (made.Email("x"), {"more": library.Other("y")}) == (email, named)
