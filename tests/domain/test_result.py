"""Results are written and read by the return annotation; how they are read counts in no comparison of specs."""

import copy
import pickle
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any

import msgspec
import pydantic
import pytest

from asyncq.domain.errors import JobCancelledError, JobFailedError, ResultUnavailable
from asyncq.domain.job import JobSpec
from asyncq.domain.result import Ended, ResultType, Returns, UnwritableResult, read_document, result_of
from asyncq.domain.signature import Signature
from asyncq.domain.states import JobState
from asyncq.domain.task import task


class Page(msgspec.Struct):
    title: str


@dataclass
class Point:
    x: int


class Order(pydantic.BaseModel):
    count: int = pydantic.Field(gt=0, alias="n")


class Line(msgspec.Struct):
    item: str


class Basket(msgspec.Struct):
    orders: list[Order]


VALUES: list[tuple[Any, Any]] = [
    (Page, Page("a")),
    (list[Page], [Page("a"), Page("b")]),
    (Page | None, Page("a")),
    (Point, Point(1)),
    (dict[str, date], {"a": date(2026, 1, 2)}),
    (tuple[int, ...], (1, 2)),
    (set[str], {"b", "a"}),
    (Order, Order(n=5)),
    (list[Order], [Order(n=5)]),
    (Basket, Basket([Order(n=5)])),
    (Annotated[int, pydantic.Field(gt=0)], 5),
    (Any, {"a": [1, None]}),
    (None, None),
]


@pytest.mark.parametrize(("kind", "value"), VALUES, ids=[str(kind) for kind, _ in VALUES])
def test_a_result_is_read_as_it_was_written(kind: Any, value: Any) -> None:
    """The worker writes it, and the client reads it by the same annotation."""
    results = ResultType(kind)

    assert value == results.read(results.write(value, 1000))


def test_nothing_is_a_result_of_every_type() -> None:
    """A handler may return early, whatever its annotation says; the reader decides."""
    assert "null" == ResultType(int).write(None, 1)


class Odd:
    """No type of JSON."""


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        (Any, Odd(), "result cannot be written as JSON: "),
        (Any, {"a": [Odd()]}, r"result cannot be written as JSON at \$\.a\[0\]: "),
        (Any, float("nan"), r"result holds NaN or Infinity at \$, which JSON lacks"),
        (Any, "\0", r"result holds U\+0000, which PostgreSQL cannot store"),
        (Any, "x" * 99, r"result is 101 bytes of JSON, at most 100 are allowed \(option max_result\)"),
        (Order, Odd(), "the result does not fit the return type of the handler: "),
        (Page | Line, Page("a"), "the return type of the handler cannot be read from JSON: "),
    ],
)
def test_a_result_that_cannot_be_stored_says_why(kind: Any, value: Any, said: str) -> None:
    """The sentence is all that the caller gets."""
    with pytest.raises(UnwritableResult, match=said):
        ResultType(kind).write(value, 100)


@pytest.mark.parametrize("kind", [int, Order, Page])
def test_a_result_of_another_type_says_so(kind: Any) -> None:
    """The worker may run another version of the handler. The value is not in the sentence."""
    with pytest.raises(UnwritableResult, match="the result does not fit the return type of the handler: ") as raised:
        ResultType(kind).read('"secret"')
    assert "secret" not in str(raised.value)


def test_how_a_result_is_read_counts_in_no_comparison() -> None:
    """It is no part of the job: specs of equal jobs are equal, and have equal hashes."""

    @task
    async def parse(url: str) -> Page:
        return Page(url)

    by_hand, made = JobSpec(task="parse", payload='{"url":"a"}'), parse.job("a")

    assert (by_hand, hash(by_hand)) == (made, hash(made))
    assert Page("b") == made.with_options(priority=5).returns.results.read('{"title": "b"}')
    assert {"title": "b"} == by_hand.returns.results.read('{"title": "b"}')
    watched = msgspec.structs.replace(made, returns=made.returns.watched_on("channel"))
    assert (True, True) == (made.is_plain, watched.is_plain)
    assert (None, "channel") == (made.returns.watcher, watched.returns.watcher)


def test_a_copy_in_another_process_reads_plain_json() -> None:
    """A local handler cannot be found there; a copy in this process is whole."""

    @task
    async def parse(url: str) -> Page:
        return Page(url)

    made = parse.job("a")
    there, here = pickle.loads(pickle.dumps(made)), copy.deepcopy(made)

    assert (made, made) == (there, here)
    assert {"title": "b"} == there.returns.results.read('{"title": "b"}')
    assert Page("b") == here.returns.results.read('{"title": "b"}')


def test_the_result_of_a_job_is_raised_or_read() -> None:
    """Each state has one answer."""

    async def parse() -> Page:
        return Page("a")

    returns = Returns(Signature(parse, "parse"))

    def end(state: str, **fields: Any) -> Any:
        return result_of(Ended(id=7, task="parse", state=JobState(state), attempts=3, **fields), returns)

    assert Page("a") == end("completed", result='{"title": "a"}')
    with pytest.raises(ResultUnavailable, match=r"the result of job 7 is not available: too large"):
        end("completed", error="too large")
    with pytest.raises(ResultUnavailable, match="it has completed, and its result was not stored"):
        end("completed")
    with pytest.raises(
        JobFailedError, match=r"job 7 \(parse\) was discarded after 3 attempts: ValueError: x$"
    ) as failed:
        end("discarded", error="ValueError: x\n\nTraceback")
    with pytest.raises(JobCancelledError, match=r"job 7 \(parse\) was cancelled"):
        end("cancelled")
    assert "ValueError: x\n\nTraceback" == failed.value.error


def test_a_document_of_the_server_is_read() -> None:
    """A result that is JSON null is a result; a number keeps its digits."""
    end = '{"id": 7, "state": "completed", "task": "t", "attempts": 1, "has_result": %s, "result": %s, "error": null}'
    number = "1.000000000000000000001"

    assert (7, None, "waiting") == read_document('{"id": 7, "state": "waiting"}')
    assert (7, None, "busy") == read_document('{"id": 7, "state": "busy"}')
    assert (7, None, None) == read_document('{"id": 7}')
    for has_result, raw, result in (("true", "null", "null"), ("false", "null", None), ("true", number, number)):
        _, ended, _ = read_document(end % (has_result, raw))
        assert ended is not None
        assert result == ended.result
