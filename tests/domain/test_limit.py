"""Limits, rates and keys of tasks: what they become, and which are refused."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from asyncq import Collect, JobContext, Limit, Queue, Rate, task
from asyncq.domain.errors import ConfigurationError, TaskError
from asyncq.domain.limit import TaskLimit


class Address(msgspec.Struct, rename="camel"):
    zip_code: str = ""


class Customer(msgspec.Struct):
    id: int
    address: Address | None = None
    labels: dict[str, str] = {}


class Order(msgspec.Struct):
    customer: Customer
    tenant_id: int = 0


async def charge(order: Order) -> None:
    """A whole payload."""


async def send(tenant_id: int, api_key: str, customer: Customer | None = None) -> None:
    """Fields."""


async def many(orders: list[Order]) -> None:
    """Takes the payloads of several jobs."""


async def tidy() -> None:
    """No payload."""


async def of_context(ctx: JobContext) -> None:
    """Reads the payload from its context."""


async def of_any(row: dict[str, Any]) -> None:
    """Takes any object."""


# The options of a task


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, None),
        ({"concurrency": 20}, TaskLimit(total=20)),
        ({"concurrency": Limit(20)}, TaskLimit(total=20)),
        (
            {"concurrency": Limit(3, by="tenant_id", name="tenants", total=50)},
            TaskLimit(name="tenants", at_once=3, total=50, by=("tenant_id",)),
        ),
        ({"concurrency": Limit(3, by="customer.id")}, TaskLimit(at_once=3, by=("customer", "id"))),
        ({"rate": Rate(10, per="1m")}, TaskLimit(total_rate=10, total_per_s=60.0)),
        (
            {"rate": Rate(10, per=2, by="api_key"), "concurrency": Limit(5, by="api_key")},
            TaskLimit(at_once=5, rate=10, per_s=2.0, by=("api_key",)),
        ),
        ({"fair": "tenant_id"}, TaskLimit(fair=True, by=("tenant_id",))),
        (
            {"fair": "tenant_id", "concurrency": Limit(3, by="tenant_id")},
            TaskLimit(at_once=3, fair=True, by=("tenant_id",)),
        ),
    ],
    ids=str,
)
def test_the_options_of_a_task_become_one_limit(options: dict[str, Any], expected: TaskLimit | None) -> None:
    """A renamed task keeps it."""
    made = task(**options)(send)

    assert expected == made.limit == made.renamed("other").limit


@pytest.mark.parametrize("fair", [None, "tenant_id"])
def test_a_limit_without_a_key_is_one_over_all_keys(fair: str | None) -> None:
    """A job has one partition, and its queue may be that; the number of all jobs is then right too."""
    found = task(concurrency=20, rate=Rate(10, per=1), fair=fair)(send).limit

    assert found is not None
    assert (None, 20, None, None, 10, 1.0) == (
        found.at_once,
        found.total,
        found.rate,
        found.per_s,
        found.total_rate,
        found.total_per_s,
    )


def test_a_limit_with_a_key_goes_with_a_rate_of_all_jobs() -> None:
    """A tenant has its slots, and the provider counts all requests."""
    found = task(concurrency=Limit(3, by="tenant_id", total=50), rate=Rate(10, per=1))(send).limit

    assert TaskLimit(at_once=3, total=50, total_rate=10, total_per_s=1.0, by=("tenant_id",)) == found


def test_a_limited_task_may_have_a_queue() -> None:
    """The queue makes its jobs serial, and the limit counts them too."""
    made = task(queue="mail", concurrency=3)(send)

    assert (TaskLimit(total=3), "mail") == (made.limit, made.job(1, "x").queue)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"concurrency": 0}, "concurrency must be a whole number from 1 to 32767, got 0; .*, pause it instead"),
        ({"concurrency": 32_768}, "concurrency must be a whole number from 1 to 32767, got 32768"),
        ({"concurrency": True}, "concurrency must be a whole number from 1 to 32767, got True"),
        ({"concurrency": "3"}, r"concurrency must be a number or a Limit, as Limit\(3, by='tenant_id'\), got '3'"),
        ({"rate": 5}, r"rate must be a Rate, as Rate\(100, per='1 min'\), got 5"),
        ({"fair": True}, "fair must be a str, got True"),
        ({"fair": ""}, "fair must have 1 to 128 characters, got 0"),
        (
            {"concurrency": Limit(3, by="tenant_id"), "rate": Rate(10, per=1, by="api_key")},
            "concurrency has the key 'tenant_id', rate has 'api_key': a job has one partition, so it needs one key",
        ),
        (
            {"concurrency": Limit(3, by="tenant_id"), "fair": "api_key"},
            "concurrency has the key 'tenant_id', fair has 'api_key': a job has one partition, so it needs one key",
        ),
        (
            {"fair": "tenant_id", "queue": "mail"},
            "the key 'tenant_id' of its limit would count none of them: a job has one partition, and queue 'mail' is",
        ),
    ],
)
def test_options_that_make_no_limit_are_refused_with_the_name_of_the_task(options: dict[str, Any], said: str) -> None:
    """They are refused at import."""
    with pytest.raises(TaskError, match=f"task 'send': {said}"):
        task(**options)(send)


# Limit, Rate, Queue


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Limit(0), "at_once of a Limit must be .* from 1 to 32767, got 0; to start no jobs, pause it instead"),
        (lambda: Limit(-1), "at_once of a Limit must be a whole number from 1 to 32767, got -1$"),
        (lambda: Limit(32_768), "at_once of a Limit must be a whole number from 1 to 32767, got 32768"),
        (lambda: Limit(2.0), "at_once of a Limit must be a whole number from 1 to 32767, got 2.0"),
        (lambda: Limit(3, by=""), "by of a Limit must have 1 to 128 characters, got 0"),
        (lambda: Limit(3, by="x" * 129), "by of a Limit must have 1 to 128 characters, got 129"),
        (lambda: Limit(3, by=["a"]), r"by of a Limit must be a str, got \['a'\]"),
        (lambda: Limit(3, by="a..b"), "by of a Limit must be names of members with dots between them, got 'a..b'"),
        (lambda: Limit(3, by="a\0"), "by of a Limit .* holds a character that PostgreSQL cannot store as text"),
        (lambda: Limit(3, name=""), "the name of a Limit must have 1 to 128 characters, got 0"),
        (lambda: Limit(3, name="x" * 129), "the name of a Limit must have 1 to 128 characters, got 129"),
        (lambda: Limit(3, name="a\n"), "the name of a Limit holds a control character"),
        (lambda: Limit(3, by="a", total=0), "total of a Limit must be .*, got 0; to start no jobs, pause it instead"),
        (lambda: Limit(3, total=5), "total of a Limit is the limit over all keys: it needs by="),
        (lambda: Rate(0, per=1), "count of a Rate must be a whole number from 1 to 100000, got 0; .* pause it"),
        (lambda: Rate(100_001, per=1), "count of a Rate must be a whole number from 1 to 100000, got 100001"),
        (lambda: Rate(1, per=0.09), "per of a Rate must lie between 0.1 seconds and a day, got 0.09"),
        (lambda: Rate(1, per=0), "per of a Rate must lie between 0.1 seconds and a day, got 0"),
        (lambda: Rate(1, per="25 h"), "per of a Rate must lie between 0.1 seconds and a day, got '25 h'"),
        (lambda: Rate(1, per="soon"), "per of a Rate must be a duration, such as 30 .*, got 'soon'"),
        (lambda: Rate(1, per=1, by="x" * 129), "by of a Rate must have 1 to 128 characters, got 129"),
        (lambda: Queue(""), "the name of a Queue must have 1 to 128 characters, got 0"),
        (lambda: Queue("default"), "queue 'default' is reserved"),
        (lambda: Queue("q", concurrency=0), "concurrency of a Queue must be .*, got 0; .* pause it instead"),
        (lambda: Queue("q", rate=5), r"rate of a Queue must be a Rate, as Rate\(100, per='1 min'\), got 5"),
        (lambda: Queue("q", rate=Rate(1, per=1, by="a")), "rate of a Queue has no by=: its jobs are one partition"),
    ],
)
def test_a_value_that_no_limit_can_have_is_refused_where_it_is_written(make: Any, said: str) -> None:
    """The traceback then ends at that line."""
    with pytest.raises(ConfigurationError, match=said):
        make()


def test_values_at_the_limits_work() -> None:
    """A limit is the last valid value."""
    made = [Limit(1), Limit(32_767, by="x" * 128, name="n" * 128, total=1), Rate(100_000, per="1 d"), Rate(1, per=0.1)]

    assert [1, 32_767] == [one.at_once for one in made if isinstance(one, Limit)]
    assert [86_400.0, 0.1] == [one.per_s for one in made if isinstance(one, Rate)]


@pytest.mark.parametrize("per", [60, "60 s", "1m", "1 min", timedelta(minutes=1)], ids=str)
def test_the_time_of_a_rate_has_the_forms_of_every_duration(per: Any) -> None:
    """There is one grammar."""
    assert Rate(5, per=60.0) == Rate(5, per=per)


# The key is a member of the payload


@pytest.mark.parametrize(
    ("handler", "by"),
    [
        (charge, "tenant_id"),
        (charge, "customer.id"),
        (charge, "customer.address.zipCode"),
        (charge, "customer.labels.anything"),
        (send, "tenant_id"),
        (send, "customer.id"),
        (of_context, "anything"),
        (of_any, "anything.in.it"),
    ],
)
def test_a_key_may_be_any_member_of_the_payload(handler: Any, by: str) -> None:
    """It has its name in JSON. Nothing is known of a handler that takes any object."""
    found = task(fair=by)(handler).limit

    assert found is not None
    assert tuple(by.split(".")) == found.by


@pytest.mark.parametrize(
    ("handler", "by", "said"),
    [
        (charge, "tenant", "there is no field 'tenant'; did you mean 'tenant_id'?"),
        (charge, "customer.name", "no payload has a member at 'customer.name'"),
        (charge, "customer.id.x", "no payload has a member at 'customer.id.x'"),
        (charge, "customer.address.zip_code", "no payload has a member at 'customer.address.zip_code'"),
        (send, "order", "there is no field 'order'; there are tenant_id, api_key, customer"),
        (send, "tenant_id.x", "no payload has a member at 'tenant_id.x'"),
        (tidy, "tenant_id", "there is no field 'tenant_id'; it takes none"),
    ],
)
def test_a_key_that_no_payload_has_is_refused(handler: Any, by: str, said: str) -> None:
    """Otherwise all jobs would share one key, and a limit for each tenant would be one for all of them."""
    with pytest.raises(TaskError) as caught:
        task(concurrency=Limit(3, by=by))(handler)

    expected = f"task {handler.__name__!r}: the key {by!r} of its limit is no member of the payload: {said}"
    assert expected == str(caught.value)


def test_the_key_of_a_task_that_collects_is_in_the_payload_of_each_job() -> None:
    """The list exists only in the call."""
    collect = Collect(max=2, within=1)

    assert task(collect=collect, fair="customer.id")(many).limit is not None
    with pytest.raises(TaskError, match="there is no field 'customers'; did you mean 'customer'"):
        task(collect=collect, fair="customers")(many)


def test_the_key_of_a_list_of_items_does_not_exist() -> None:
    """The payload of such a job is an array."""
    with pytest.raises(TaskError, match="is no member of the payload: there is no field 'tenant_id'; it takes none"):
        task(items=True, fair="tenant_id")(many)
