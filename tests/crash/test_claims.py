"""The ledger of claims sees each law broken, and no fault in a claim that an older rule allowed."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from asyncq.store.statements import render
from tests.crash.claims import WRONG_ENDS, open_ledger
from tests.support.session import session

ADD = """
insert into asyncq._jobs (run_at, created_at, updated_at, task_id, queue, partition, payload)
select now(), now(), now(), task.id, $2, 1, json_build_object('key', $3::text) from asyncq._tasks as task
where task.identifier = $1 returning id
"""
CLAIM = "update asyncq._jobs set locked_by = 1, lock_token = 1, locked_at = now(), shared = true where id = any($1)"
UNCLAIM = "update asyncq._jobs set locked_by = null, lock_token = null, locked_at = null, shared = false"
END = """
with ended as (delete from asyncq._jobs where id = $1 returning *)
insert into asyncq._ended_jobs (id, created_at, ended_at, keep_until, task_id, state, payload)
select id, created_at, now(), 'infinity', task_id, $2, payload from ended
"""
EDGES = "insert into chaos.edges (waiter, job_id, runs_anyhow) select $1, unnest($2::bigint[]), $3"
ORDER = "insert into chaos.orders (scope, value) values ($1, $2)"


class Book:
    """A schema with the ledger."""

    def __init__(self, connection: asyncpg.Connection, dsn: str, schema: str, ledger: str) -> None:
        self.connection = connection
        self.dsn = dsn
        self.schema = schema
        self.ledger = ledger

    async def rows(self, sql: str, *args: object) -> list[asyncpg.Record]:
        """The answer to a statement in the words of claims.sql."""
        return await self.connection.fetch(render(sql, self.schema).replace("chaos.", f"{self.ledger}."), *args)

    async def add(self, task: str = "plain", queue: str | None = None, key: str = "x") -> int:
        """Add a job; returns its id."""
        return (await self.rows(ADD, task, queue, key))[0]["id"]

    async def claim(self, *jobs: int) -> None:
        """Claim jobs, whatever the rules are."""
        await self.rows(CLAIM, jobs)

    async def end(self, job: int, state: str) -> None:
        """End a job, and keep it."""
        await self.rows(END, job, state)

    async def faults(self) -> list[str]:
        """The laws that were broken."""
        found = await self.rows("select law from chaos.faults union all select 'rate' from chaos.over_rate")
        return sorted(row["law"] for row in found)


@pytest.fixture
async def book(dsn: str, schema: str) -> AsyncIterator[Book]:
    """The ledger of the test's schema, in a schema of its own."""
    ledger = f"{schema}_chaos"
    async with session(dsn, schema) as opened:
        await opened.connection.execute(f"create schema {ledger}")
        await open_ledger(opened.connection, schema, ledger)
        await opened.execute("select asyncq._store_tasks('{plain,other,keyed,rated,paced,whole,join}')")
        try:
            yield Book(opened.connection, dsn, schema, ledger)
        finally:
            await opened.connection.execute(f"drop schema {ledger} cascade")
            await opened.execute(
                "delete from asyncq._jobs; delete from asyncq._ended_jobs; delete from asyncq._wakeups"
            )


async def test_more_claims_at_once_than_a_limit_allows_are_seen(book: Book) -> None:
    """Of a queue, of a key, of a key that has its own number, of a total."""
    for job in [await book.add(queue="a") for _ in "12"]:
        await book.claim(job)
    await book.claim(*[await book.add("keyed", key="x") for _ in "123"])
    await book.rows(ORDER, "at_once key keyed y", 1)
    await book.claim(*[await book.add("keyed", key="y") for _ in "12"])
    await book.claim(*[await book.add("whole", key=key) for key in "xyz"])

    assert ["no more at once"] * 3 + ["no more in total"] == await book.faults()


@pytest.mark.parametrize("scope", ["everything", "task keyed", "limit keyed", "key keyed x"])
async def test_a_claim_of_what_is_paused_is_seen(book: Book, scope: str) -> None:
    """A pause that ended holds nothing back."""
    first, second = [await book.add("keyed") for _ in "12"]
    await book.rows(ORDER, f"pause {scope}", 1)
    await book.claim(first)
    await book.rows(ORDER, f"pause {scope}", None)
    await book.claim(second)

    assert ["nothing that is paused starts"] == await book.faults()


async def test_a_claim_of_what_is_backed_off_is_seen(book: Book) -> None:
    """A back-off of another key holds nothing back."""
    await book.rows("insert into chaos.backed_off (of_group, until) values ('key keyed x', now() + interval '1 h')")
    await book.claim(*[await book.add("keyed", key=key) for key in "xy"])

    assert ["nothing that is backed off starts"] == await book.faults()


async def test_more_starts_than_a_rate_allows_are_seen(book: Book) -> None:
    """Two starts of a key in half a second, and four of all."""
    await book.claim(*[await book.add("rated", key=key) for key in "xxxyy"])
    await book.claim(*[await book.add("paced") for _ in "12345"])

    assert ["rate"] * 2 == await book.faults()


async def test_a_job_that_overtakes_another_one_of_its_queue_is_seen(book: Book) -> None:
    """Of the same task; of another task, if a wakeup names that."""
    _, later, other = [await book.add(task, queue="a") for task in ("plain", "plain", "other")]
    await book.claim(later)
    await book.rows("delete from asyncq._jobs where locked_by is not null")
    await book.claim(other)
    await book.rows("update asyncq._jobs set locked_by = null, lock_token = null, locked_at = null")
    await book.rows("""
        insert into asyncq._wakeups (at, partition, task_id, priority)
        select run_at, partition, task_id, priority from asyncq._jobs""")
    await book.claim(other)

    assert ["a serial queue keeps its order"] * 2 == await book.faults()


async def test_a_second_claim_and_an_end_without_a_claim_are_seen(book: Book) -> None:
    """A claim ends once."""
    job = await book.add()
    await book.claim(job)
    await book.rows("delete from chaos.claims")
    await book.rows("delete from asyncq._jobs")

    assert ["an end has a claim"] == await book.faults()


@pytest.mark.parametrize(("is_lowered_before", "faults"), [(True, ["no more at once"]), (False, [])])
async def test_a_claim_that_follows_another_one_may_stay_above_a_limit_that_was_lowered_since(
    book: Book, *, is_lowered_before: bool, faults: list[str]
) -> None:
    """It takes the place of the other one, so no more run than before."""
    first, second, third = [await book.add("keyed") for _ in "123"]
    await book.claim(first, second)
    async with book.connection.transaction(isolation="repeatable_read"):
        if not is_lowered_before:
            await book.rows("select 1")
        async with session(book.dsn, book.schema) as other:
            await other.connection.execute(
                f"insert into {book.ledger}.orders (scope, value) values ('at_once limit keyed', 1)"
            )
        ended = "with ended as (delete from asyncq._jobs where id = $2 returning id)"
        await book.rows(f"{ended} {CLAIM} and exists (select from ended)", [third], first)

    assert faults == await book.faults()


async def test_a_job_that_starts_before_what_it_waits_for_is_seen(book: Book) -> None:
    """The other one waits, runs, or has vanished without an end that was kept."""
    waiter, first, second, third = [await book.add() for _ in "1234"]
    await book.rows(EDGES.replace("$3", "false"), waiter, [first, second, third])
    await book.claim(second)
    await book.end(third, "completed")
    await book.claim(waiter)
    await book.rows("delete from asyncq._jobs where id = any($1)", [first, second])
    await book.rows(UNCLAIM)
    await book.claim(waiter)

    assert ["nothing starts before what it waits for"] * 4 == await book.faults()


@pytest.mark.parametrize(
    ("runs_anyhow", "awaited", "ended", "is_wrong"),
    [
        (False, "completed", "completed", False),
        (False, "completed", None, True),
        (False, "cancelled", "completed", True),
        (False, "cancelled", "cancelled", False),
        (True, "cancelled", "completed", False),
        (True, "cancelled", "cancelled", True),
    ],
)
async def test_a_job_that_does_not_end_as_what_it_waits_for_says_is_seen(
    book: Book, *, runs_anyhow: bool, awaited: str, ended: str | None, is_wrong: bool
) -> None:
    """One that was forgotten has no end."""
    waiter, first, second = [await book.add() for _ in "123"]
    await book.rows(EDGES, waiter, [first, second], runs_anyhow)
    await book.end(first, "completed")
    await book.end(second, awaited)
    if ended is not None:
        await book.end(waiter, ended)

    assert ([waiter] if is_wrong else []) == [row["waiter"] for row in await book.rows(WRONG_ENDS, 10)]


@pytest.mark.parametrize(
    ("state", "runs", "is_wrong"),
    [
        ("completed", [0], False),
        ("completed", [], True),
        ("completed", [0, 0], True),
        ("completed", [1], True),
        ("cancelled", [], False),
        ("cancelled", [0], True),
    ],
)
async def test_the_last_job_of_a_tree_that_ran_twice_or_missed_an_effect_is_seen(
    book: Book, *, state: str, runs: list[int], is_wrong: bool
) -> None:
    """A cancelled one has not run."""
    job = await book.add("join")
    await book.rows("update asyncq._jobs set payload = '{\"number\": 7}' where id = $1", job)
    await book.end(job, state)
    await book.rows("insert into chaos.joined select 7, unnest($1::int[])", runs)

    assert ([job] if is_wrong else []) == [row["waiter"] for row in await book.rows(WRONG_ENDS, 10)]
