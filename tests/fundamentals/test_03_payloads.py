"""A job's payload is JSON; the handler's annotations say what it becomes: anything that msgspec or pydantic can read.

One parameter that is no single value (a struct, a dict, a list, ...) is the payload itself; otherwise the parameters
are the fields of a payload that is an object.
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, TypedDict
from uuid import UUID

import msgspec
import pydantic
import pytest

from asyncq import Client, InvalidJob, JobContext, JobState, TaskError, task
from asyncq.testing import run_due


class Email(msgspec.Struct):
    to: str
    subject: str = "Hello"


@dataclass
class Point:
    x: int
    y: int


class Order(pydantic.BaseModel):
    item: str = pydantic.Field(alias="Item")
    count: pydantic.PositiveInt = 1


class Batch(msgspec.Struct):
    orders: list[Order]


class Address(TypedDict):
    city: str


async def test_a_struct(dsn: str, schema: str, client: Client) -> None:
    """The fastest kind, checked field by field; defaults are filled in."""
    received: list[Email] = []

    @task
    async def send_email(email: Email) -> None:
        received.append(email)

    await client.add_job(send_email, Email("ada@example.org"))
    await client.add_job("send_email", {"to": "bob@example.org", "subject": "Bye"})
    await run_due(dsn, [send_email], schema=schema, concurrency=1)

    assert received == [Email("ada@example.org", "Hello"), Email("bob@example.org", "Bye")]


async def test_a_dataclass(dsn: str, schema: str, client: Client) -> None:
    """A payload type needs nothing of asyncq's."""
    received: list[Point] = []

    @task
    async def plot(point: Point) -> None:
        received.append(point)

    await client.add_job(plot, Point(1, 2))
    await run_due(dsn, [plot], schema=schema)

    assert received == [Point(1, 2)]


async def test_a_model_of_pydantic(dsn: str, schema: str, client: Client) -> None:
    """pydantic checks it at the add and in the worker, also in a Struct. A worker reads what other languages added."""
    received: list[Any] = []

    @task(max_attempts=1)
    async def confirm(order: Order) -> None:
        received.append(order)

    @task
    async def ship(batch: Batch, address: Address, weight: pydantic.PositiveInt) -> None:
        received.append((batch, address, weight))

    await client.add_job(confirm, Order(Item="tea", count=2))
    await client.add_job("confirm", {"Item": "jam"})
    await client.add_job(ship.job(Batch([Order(Item="tea")]), {"city": "Turin"}, weight=5))
    await run_due(dsn, [confirm, ship], schema=schema, concurrency=1)
    wrong = await client.add_job("confirm", {"Item": "tea", "count": 0})
    await run_due(dsn, [confirm], schema=schema)
    job = await client.get_job(wrong.id)

    in_batch = (Batch([Order(Item="tea")]), {"city": "Turin"}, 5)
    assert received == [Order(Item="tea", count=2), Order(Item="jam"), in_batch]
    assert job is not None
    said = "ValidationError: the payload does not fit the task: Input should be greater than 0 - at `$.count`"
    assert said == job.last_error
    with pytest.raises(InvalidJob, match=r"greater than 0 - at `\$\.weight`"):
        ship.job(Batch([]), {"city": "Turin"}, weight=0)


async def test_a_typed_dict(dsn: str, schema: str, client: Client) -> None:
    """A plain dict at run time, checked all the same."""
    received: list[Address] = []

    @task
    async def visit(address: Address) -> None:
        received.append(address)

    await client.add_job(visit, {"city": "Turin"})
    await run_due(dsn, [visit], schema=schema)

    assert received == [{"city": "Turin"}]


async def test_a_dict(dsn: str, schema: str, client: Client) -> None:
    """A dict is for payloads whose fields are not known."""
    received: list[dict[str, Any]] = []

    @task
    async def note(anything: dict[str, Any]) -> None:
        received.append(anything)

    await client.add_job(note, {"colour": "blue", "size": [1, 2]})
    await run_due(dsn, [note], schema=schema)

    assert received == [{"colour": "blue", "size": [1, 2]}]


async def test_a_list(dsn: str, schema: str, client: Client) -> None:
    """A payload need not be an object."""
    received: list[list[int]] = []

    @task
    async def add_up(numbers: list[int]) -> None:
        received.append(numbers)

    await client.add_job(add_up, [1, 2, 3])
    await run_due(dsn, [add_up], schema=schema)

    assert received == [[1, 2, 3]]


async def test_fields(dsn: str, schema: str, client: Client) -> None:
    """Parameters are fields of the object. Dates, times and UUIDs are sent as text, and arrive with their types."""
    received: list[tuple[object, ...]] = []

    @task
    async def report(day: date, account: UUID, at: datetime, dry_run: bool = False) -> None:
        received.append((day, account, at, dry_run))

    call = (date(2026, 11, 20), UUID(int=7), datetime(2026, 11, 20, 8, tzinfo=UTC))
    await client.add_job(report.job(*call))
    await run_due(dsn, [report], schema=schema)

    assert received == [(*call, False)]


async def test_no_payload(dsn: str, schema: str, client: Client) -> None:
    """A task without parameters, or with none but the context, takes any payload and ignores it."""
    calls: list[str] = []

    @task
    async def tick() -> None:
        calls.append("tick")

    @task
    async def tock(ctx: JobContext) -> None:
        calls.append("tock")

    await client.add_job(tick)
    await client.add_job("tock", {"nobody": "reads this"})
    await run_due(dsn, [tick, tock], schema=schema, concurrency=1)

    assert calls == ["tick", "tock"]


async def test_a_payload_of_the_wrong_type_is_refused_at_the_add(client: Client) -> None:
    """The error is raised before anything is sent to the database. It names the field and its expected type."""

    @task
    async def send_email(email: Email) -> None:
        pass

    with pytest.raises(InvalidJob, match=r"Expected `str`, got `int` - at `\$\.to`"):
        await client.add_job(send_email, {"to": 7})


async def test_a_payload_that_does_not_decode_fails_the_job(dsn: str, schema: str, client: Client) -> None:
    """An add by name or in SQL has no type check. The worker goes on, and `last_error` has the path of the field.

    The job is retried as after any failure, since the next deployment may fix it.
    """

    @task
    async def send_email(email: Email) -> None:
        pass

    added = await client.add_job("send_email", {"to": 7})
    ran = await run_due(dsn, [send_email], schema=schema)
    job = await client.get_job(added.id)

    assert ran.retried == [added.id]
    assert job.last_error == (
        "ValidationError: the payload does not fit the task: Expected `str`, got `int` - at `$.to`"
    )
    assert job.state == JobState.RETRYABLE


async def test_a_large_payload_is_refused(dsn: str, schema: str) -> None:
    """1 MiB by default: store files elsewhere, and send where they are."""
    async with Client(dsn, schema=schema, max_payload=100) as client:
        with pytest.raises(InvalidJob) as caught:
            await client.add_job("note", {"text": "x" * 100})

    assert (caught.value.limit, caught.value.length) == (100, 111)


async def test_a_function_that_cannot_be_served_is_no_task() -> None:
    """An error at import time is better than one at three in the morning."""
    with pytest.raises(TaskError, match=r"\*\*options cannot be filled from a payload"):

        @task
        async def greet(**options: str) -> None:
            pass


async def test_meta_is_stored_beside_the_payload(dsn: str, schema: str, client: Client) -> None:
    """`meta` holds data about the job that is not for its handler: the requesting user, a trace id."""
    seen: list[Any] = []

    @task
    async def note(ctx: JobContext) -> None:
        seen.append(ctx.job.meta)

    await client.add_job(note, meta={"trace": "4bf9"})
    await run_due(dsn, [note], schema=schema)

    assert seen == [{"trace": "4bf9"}]
