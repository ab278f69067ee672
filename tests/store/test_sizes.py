"""Parameters that are too large for one statement are refused before they are sent, in each call."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from asyncq import Client, CronItem, InvalidJob, JobSpec
from asyncq.domain.cron.slot import Slot
from asyncq.store import sizes
from asyncq.store.crontabs import Told, first_slots, tell
from asyncq.store.database import ReconnectingConnection
from asyncq.store.sizes import LARGEST_STATEMENT, PIECE, check_size, first_piece
from tests.support.roles import three_roles
from tests.support.session import Session

MIB = 1024 * 1024
NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
LIMIT = 10_000

Call = Callable[[Client], Awaitable[object]]
CALLS: dict[str, tuple[str, Call]] = {
    "payloads": ("specs", lambda client: client.add_jobs([spec(1000)] * 10)),
    "metas": ("specs", lambda client: client.add_jobs([JobSpec(task="t", meta=text(1000))] * 10)),
    "keys": ("specs", lambda client: client.add_jobs([JobSpec(task="t", job_key="é" * 500)] * 10)),
    "ids": ("ids", lambda client: client.admin.cancel_jobs(range(1, 2000))),
    "items": ("items", lambda client: client.cron.add(CronItem("t", "* * * * *", payload={"a": "x" * LIMIT}))),
}


def text(size: int) -> str:
    """An object in JSON of so many bytes."""
    return '{"a":"' + "x" * (size - 8) + '"}'


def spec(size: int) -> JobSpec:
    """A job whose payload has so many bytes."""
    return JobSpec(task="t", payload=text(size))


@pytest.mark.parametrize(("field", "call"), CALLS.values(), ids=CALLS)
async def test_a_call_that_is_too_large_is_refused(
    client: Client, sql: Session, monkeypatch: pytest.MonkeyPatch, field: str, call: Call
) -> None:
    """The error has the limit and the actual size. The client still works."""
    monkeypatch.setattr(sizes, "LARGEST_STATEMENT", LIMIT)
    with pytest.raises(InvalidJob, match=rf"{field} are \d+ bytes .* at most 10000") as refused:
        await call(client)
    monkeypatch.undo()
    await client.add_job("t")

    error = refused.value
    assert ("54000", field, LIMIT, True) == (error.code, error.field, error.limit, (error.length or 0) >= LIMIT)
    assert 1 == await sql.value("select count(*) from asyncq._jobs")


async def test_a_role_that_only_enqueues_is_refused_too(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its jobs are sent as one document."""
    async with three_roles(dsn) as roles, Client(roles.dsn_of(roles.enqueuer), schema=roles.schema) as client:
        monkeypatch.setattr(sizes, "LARGEST_STATEMENT", LIMIT)
        with pytest.raises(InvalidJob, match="specs are"):
            await client.add_jobs([spec(1000)] * 10)
        monkeypatch.undo()

        assert 1 == len(await client.add_jobs([spec(1000)]))


async def test_nothing_is_sent_in_the_transaction_of_a_caller(
    client: Client, db: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failing statement would abort it."""
    monkeypatch.setattr(sizes, "LARGEST_STATEMENT", LIMIT)
    async with db.transaction():
        with pytest.raises(InvalidJob, match="specs are"):
            await client.add_jobs([spec(1000)] * 10, connection=db)

        assert 1 == await db.fetchval("select 1")


async def test_the_statements_of_workers_have_the_limit(
    line: ReconnectingConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their errors, and the items of their crontabs."""
    monkeypatch.setattr(sizes, "LARGEST_STATEMENT", LIMIT)
    with pytest.raises(InvalidJob, match="parameters are"):
        await line.fetch(
            "settle_rest", 1, [1], [1], [None], [1], [0.0], ["x" * LIMIT], [0], [None], [None], [None], [None]
        )
    with pytest.raises(InvalidJob, match="parameters are"):
        await line.fetch("declare_cron", 1, text(LIMIT))


@pytest.mark.parametrize(
    ("parameters", "size"),
    [
        (["x" * 100], 100),
        (["é" * 100], 200),
        (["\ud800"], 3),
        ([1, None, 2.5, True], 32),
        ([["a", None, ["bc"]], ("d",)], 12),
        ([], 0),
    ],
)
def test_sizes_are_those_of_the_sent_values(
    parameters: list[object], size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Texts count in bytes of UTF-8, numbers as eight."""
    monkeypatch.setattr(sizes, "LARGEST_STATEMENT", size)
    check_size("specs", parameters)
    monkeypatch.setattr(sizes, "LARGEST_STATEMENT", size - 1)
    with pytest.raises(InvalidJob, match=f"specs are {size} bytes"):
        check_size("specs", parameters)


def test_a_piece_is_never_empty_and_leaves_nothing_out() -> None:
    """A single item beyond the size is a piece of its own."""
    sizes_ = [PIECE // 2, PIECE // 2, 1, 2 * PIECE, 3, 4]
    pieces: list[list[int]] = []
    while sizes_:
        piece = first_piece(sizes_, 2, lambda size: size)
        pieces.append([*piece])
        sizes_ = sizes_[len(piece) :]

    assert [[PIECE // 2, PIECE // 2], [1], [2 * PIECE], [3, 4]] == pieces
    assert [] == [*first_piece([], 2, len)]


def test_missed_slots_of_large_payloads_are_added_a_few_at_a_time() -> None:
    """A thousand of 1 MiB each would make one statement of a gigabyte."""
    item = CronItem("t", "* * * * *", payload={"a": "x" * (MIB - 1000)})
    missed = [Slot(item, NOON + timedelta(minutes=number)) for number in range(1000)]

    assert 16 == len(first_slots(missed, 1000))
    assert 5 == len(first_slots(missed, 5))


async def test_items_with_large_jobs_are_reported_a_few_at_a_time(
    client: Client, line: ReconnectingConnection, sql: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them is reported once."""
    for name in "abc":
        await client.cron.add(CronItem("t", "* * * * *", identifier=name))
    monkeypatch.setattr(sizes, "PIECE", 10)
    revisions = await sql.values("select revision from asyncq._cron_items order by identifier")
    job = '{"task": "t"}'
    told = [Told(identifier=name, revision=number, job=job) for name, number in zip("abc", revisions, strict=True)]
    monkeypatch.setattr(sizes, "LARGEST_STATEMENT", 60)
    await tell(line, told)

    assert [job] * 3 == await sql.values("select job::text from asyncq._cron_items")


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_the_largest_allowed_call_is_added_and_a_larger_one_is_refused(
    dsn: str, schema: str, sql: Session
) -> None:
    """The server accepts 256 MiB in one statement."""
    full = spec(8 * MIB)
    number = LARGEST_STATEMENT // (8 * MIB)
    async with Client(dsn, schema=schema, max_payload=16 * MIB) as client:
        added = await client.add_jobs([full] * (number - 1))
        with pytest.raises(InvalidJob, match=f"at most {LARGEST_STATEMENT}"):
            await client.add_jobs([full] * (number + 1))

    assert (number - 1, number - 1) == (len(added), await sql.value("select count(*) from asyncq._jobs"))
