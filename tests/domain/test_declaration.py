"""The limits that a worker declares for its tasks and queues, and which contradict each other."""

from typing import Any

import msgspec
import pytest

from asyncq import Client, Codec, Limit, Queue, Rate, Task, TaskError, Worker, task
from asyncq.domain.declaration import DeclaredLimit, DeclaredQueue, DeclaredTask
from asyncq.domain.task import Registry

DSN = "postgresql://localhost/none"
TENANTS = Limit(3, by="tenant_id", name="tenants")


class Plain(Codec):
    """A codec."""

    key_id = "plain"

    def encode(self, task: str, data: bytes) -> bytes:
        return data

    def decode(self, task: str, data: bytes, key_id: str) -> bytes:
        return data


def made(name: str, **options: Any) -> Task[...]:
    """A task that takes any payload."""

    async def handler(payload: Any) -> None: ...

    return task(name=name, **options)(handler)


def test_a_worker_without_limits_declares_its_tasks_alone() -> None:
    """A task that had a limit in the deployment before loses it."""
    found = Registry([made("b"), made("a")]).declaration

    assert ((), ()) == (found.limits, found.queues)
    assert (DeclaredTask("a"), DeclaredTask("b")) == found.tasks


def test_a_limit_has_its_name_or_that_of_its_task() -> None:
    """The name of a task is that in the database."""
    found = Registry([made("a", concurrency=3), made("b", concurrency=TENANTS), made("c", fair="x.y").renamed("d")])

    assert (
        DeclaredLimit(name="a", total=3),
        DeclaredLimit(name="d", fair=True),
        DeclaredLimit(name="tenants", at_once=3),
    ) == found.declaration.limits
    assert (
        DeclaredTask("a", "a"),
        DeclaredTask("b", "tenants", ("tenant_id",)),
        DeclaredTask("d", "d", ("x", "y")),
    ) == found.declaration.tasks


def test_tasks_share_a_limit_by_its_name() -> None:
    """The key may be elsewhere in the payload of each: its value is the tenant."""
    found = Registry([made("a", concurrency=TENANTS), made("b", concurrency=Limit(3, by="to.tenant", name="tenants"))])

    assert (DeclaredLimit(name="tenants", at_once=3),) == found.declaration.limits
    assert [("tenant_id",), ("to", "tenant")] == [each.by for each in found.declaration.tasks]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"concurrency": Limit(5, by="tenant_id", name="tenants")}, "at_once is 3 for 'a' and 5 for 'b'"),
        ({"concurrency": Limit(3, by="t", name="tenants", total=9)}, "total is None for 'a' and 9 for 'b'"),
        ({"concurrency": TENANTS, "fair": "tenant_id"}, "fair is False for 'a' and True for 'b'"),
        ({"concurrency": Limit(3, name="tenants")}, "at_once is 3 for 'a' and None for 'b'"),
        ({"concurrency": TENANTS, "rate": Rate(5, per=1)}, "total rate is None for 'a' and 5 per 1 s for 'b'"),
        (
            {"concurrency": TENANTS, "rate": Rate(10, per="1 min", by="tenant_id")},
            "rate is None for 'a' and 10 per 60 s for 'b'",
        ),
    ],
    ids=str,
)
def test_tasks_that_declare_one_limit_differently_are_refused(options: dict[str, Any], said: str) -> None:
    """Each of the two would be right for a while, by chance."""
    with pytest.raises(TaskError) as caught:
        Registry([made("b", **options), made("a", concurrency=TENANTS)])

    assert f"tasks 'a' and 'b' have one limit 'tenants', but {said}: declare it alike" == str(caught.value)


def test_the_name_of_another_task_is_that_of_its_limit() -> None:
    """It has one meaning in the database."""
    with pytest.raises(TaskError, match="tasks 'a' and 'b' have one limit 'a', but total is 3 for 'a' and 5 for 'b'"):
        Registry([made("a", concurrency=3), made("b", concurrency=Limit(5, name="a"))])


# Queues


def test_queues_are_declared_beside_the_tasks() -> None:
    """Without a number their jobs run one after the other, as those of every queue."""
    reports = Queue("reports", concurrency=4, rate=Rate(10, per="1s"))
    found = Registry([reports, made("a", queue="reports"), Queue("api", rate=Rate(1, per=1)), reports])

    assert ["a"] == [*found]
    assert (
        DeclaredQueue(name="api", at_once=1, rate=1, per_s=1.0),
        DeclaredQueue(name="reports", at_once=4, rate=10, per_s=1.0),
    ) == found.declaration.queues


def test_a_queue_has_one_limit() -> None:
    """The second one would replace the first without a word."""
    with pytest.raises(TaskError, match=r"queue 'q' has two limits: leave one Queue\('q', ...\) out"):
        Registry([Queue("q", concurrency=2), Queue("q", concurrency=3)])


@pytest.mark.parametrize("other", [Queue("tenants", concurrency=2), made("b", queue="tenants")], ids=["limit", "task"])
def test_a_limit_does_not_have_the_name_of_a_queue(other: Any) -> None:
    """A worker chooses both by their names."""
    with pytest.raises(TaskError, match="task 'a': its limit has the name of queue 'tenants'; give it another name"):
        Registry([made("a", concurrency=TENANTS), other])


def test_a_task_may_have_the_name_of_a_queue() -> None:
    """Its limit got that name from the task, and nobody has chosen it."""
    assert ["a"] == [limit.name for limit in Registry([made("a", queue="a", concurrency=3)]).declaration.limits]


@pytest.mark.parametrize("kind", [Worker, Client])
def test_contradictions_are_found_when_a_worker_or_a_client_is_made(kind: Any) -> None:
    """A test of a service finds them without a database."""
    with pytest.raises(TaskError, match="declare it alike"):
        kind(DSN, tasks=[made("a", concurrency=TENANTS), made("b", concurrency=Limit(4, by="x", name="tenants"))])


@pytest.mark.parametrize("kind", [Worker, Client])
def test_a_key_that_a_codec_hides_is_refused(kind: Any) -> None:
    """All encoded payloads would have the empty key: a limit of each tenant would be one of all."""
    with pytest.raises(TaskError) as caught:
        kind(DSN, tasks=[made("a", concurrency=3), made("b", fair="to.tenant")], codec=Plain())

    said = "its limit has the key 'to.tenant', which the database does not find in encoded payloads"
    assert f"task 'b': {said}; use a limit without a key, or no codec" == str(caught.value)
    assert kind(DSN, tasks=[made("a", concurrency=3)], codec=Plain())


def test_a_declaration_is_json() -> None:
    """The store sends it as one text."""
    found = Registry([made("a", concurrency=TENANTS, fair="tenant_id"), Queue("q")]).declaration

    unset = dict.fromkeys(["total", "rate", "per_s", "total_rate", "total_per_s"])
    assert {
        "limits": [{"name": "tenants", "at_once": 3, "fair": True, **unset}],
        "tasks": [{"identifier": "a", "limit": "tenants", "by": ["tenant_id"]}],
        "queues": [{"name": "q", "at_once": 1, "rate": None, "per_s": None}],
    } == msgspec.json.decode(msgspec.json.encode(found))
