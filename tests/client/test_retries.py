"""Adds whose answer was lost: with an idempotency key they are repeated, without one they raise.

The link cuts the connection between the commit and its answer: it holds back the end of the answer, which the server
sends after the commit.
"""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import anyio
import asyncpg
import pytest

import asyncq.store.retries
from asyncq import AsyncqError, Client, DuplicateJob, InvalidJob, StoreError, StoreUnavailable, UniquePolicy
from asyncq.store import add
from asyncq.store.retries import pause_before_another_try
from tests.support.faults import Link, link_to
from tests.support.waiting import wait_until

# The end of an answer: the command is complete, and the server is ready outside of a transaction, so it has committed.
COMMITTED = b"C\0\0\0\rSELECT 1\0Z\0\0\0\x05I"
# All jobs of the call were added: of none is there more to say, in four columns. Other statements end in another way.
ADDED = b"\xff" * 16 + COMMITTED
REJECTED = b"available" + COMMITTED


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pauses between the tries, shortened: two seconds are for a server that restarts."""
    monkeypatch.setattr(asyncq.store.retries, "PAUSES_S", (0.01, 0.02, 0.03))


@pytest.fixture
async def link(dsn: str) -> AsyncIterator[Link]:
    """A way to the server that can be cut."""
    async with link_to(dsn) as made:
        yield made


@pytest.fixture
async def far(link: Link, schema: str) -> AsyncIterator[Client]:
    """A client whose connections use the link."""
    async with Client(link.dsn, schema=schema) as opened:
        yield opened


LOST = StoreUnavailable("the answer was lost", outcome="unknown")
CONFLICT = StoreError("a deadlock", sqlstate="40P01")
DOWN = StoreUnavailable("no server", outcome="not_sent")
WRONG = InvalidJob("no such task", code="GWBIN", field="task")


@pytest.mark.parametrize(
    ("error", "tries", "left_s", "has_keys", "is_lost", "pause_s"),
    [
        # The outcome is unknown: retried only with keys, and then three times, whatever `retry_for` is.
        (LOST, 1, 0.0, True, True, 0.01),
        (LOST, 3, 0.0, True, True, 0.03),
        (LOST, 4, 0.0, True, True, None),
        (LOST, 4, 9.0, True, True, 0.03),
        (LOST, 1, 9.0, False, True, None),
        # A conflict did nothing: keys or not.
        (CONFLICT, 3, 0.0, False, False, 0.03),
        (CONFLICT, 4, 0.0, False, False, None),
        (CONFLICT, 4, 9.0, False, False, 0.03),
        # No database: as long as `retry_for` says, unless an earlier try may have added the jobs.
        (DOWN, 1, 0.0, True, False, None),
        (DOWN, 1, 0.004, False, False, 0.004),
        (DOWN, 9, 9.0, False, False, 0.03),
        (DOWN, 2, 0.0, True, True, 0.02),
        (DOWN, 4, 0.0, True, True, None),
        # A repeated call would fail in the same way.
        (WRONG, 1, 9.0, True, False, None),
        (WRONG, 2, 9.0, True, True, None),
    ],
)
def test_whether_an_add_is_made_again(
    error: AsyncqError, tries: int, left_s: float, has_keys: bool, is_lost: bool, pause_s: float | None
) -> None:
    """Each line of the table of `pause_before_another_try` is tested."""
    decided = pause_before_another_try(error, tries, left_s, has_keys=has_keys, is_lost=is_lost)

    assert pause_s == decided


async def jobs(db: asyncpg.Connection, schema: str) -> list[int]:
    """The jobs that there are."""
    return [row["id"] for row in await db.fetch(f"select id from {schema}._all_jobs() order by id")]


async def test_an_add_with_a_key_whose_answer_was_lost_returns_its_first_job(
    far: Client, link: Link, db: asyncpg.Connection, schema: str
) -> None:
    """The caller notices nothing, and one job exists."""
    link.cut_at_answer_with(ADDED)
    added = await far.add_job("pay", {"order": 7}, idempotency_key="order-7")

    assert link.was_cut.is_set()
    assert ("deduplicated", added.id, "available") == (added.outcome, added.existing_id, added.existing_state)
    assert [added.id] == await jobs(db, schema)


async def test_an_add_without_a_key_whose_answer_was_lost_is_left_to_the_caller(
    far: Client, link: Link, db: asyncpg.Connection, schema: str
) -> None:
    """A second try could add a second job, so the error reports an unknown outcome. One job exists."""
    link.cut_at_answer_with(ADDED)
    with pytest.raises(StoreUnavailable) as caught:
        await far.add_job("pay", {"order": 7})

    assert "unknown" == caught.value.outcome
    assert 1 == len(await jobs(db, schema))


async def test_many_adds_with_keys_are_made_again_together(
    far: Client, link: Link, db: asyncpg.Connection, schema: str
) -> None:
    """Each repeated add returns its own first job."""
    link.cut_at_answer_with(ADDED)
    specs = [asyncq.JobSpec(task="pay", payload=f"{n}", idempotency_key=f"order-{n}") for n in range(3)]
    done = await far.add_jobs(specs)

    assert ["deduplicated"] * 3 == [added.outcome for added in done]
    assert [added.id for added in done] == await jobs(db, schema)


async def test_many_adds_are_not_repeated_if_one_has_no_key(
    far: Client, link: Link, db: asyncpg.Connection, schema: str
) -> None:
    """The one without a key would be added twice."""
    link.cut_at_answer_with(ADDED)
    with pytest.raises(StoreUnavailable) as caught:
        await far.add_jobs([asyncq.JobSpec(task="pay", idempotency_key="order-7"), asyncq.JobSpec(task="pay")])

    assert "unknown" == caught.value.outcome
    assert 2 == len(await jobs(db, schema))


async def test_on_the_callers_connection_nothing_is_repeated(
    far: Client, link: Link, db: asyncpg.Connection, schema: str
) -> None:
    """Its transaction is lost too. The caller has to repeat the whole transaction with the same key."""
    own = await asyncpg.connect(link.dsn)
    link.cut_at_answer_with(ADDED)
    with pytest.raises(StoreUnavailable) as caught:
        await far.add_job("pay", connection=own, autocommit=True, idempotency_key="order-7")
    again = await far.add_job("pay", idempotency_key="order-7")

    assert "unknown" == caught.value.outcome
    assert ("deduplicated", [again.id]) == (again.outcome, await jobs(db, schema))


async def test_after_some_tries_the_outcome_is_reported_as_unknown(
    far: Client, link: Link, db: asyncpg.Connection, schema: str
) -> None:
    """The later tries did nothing, but the outcome of the first one is unknown."""
    link.cut_at_answer_with(ADDED)

    async def refuse() -> bool:
        if link.was_cut.is_set():
            link.refuse("client")
        return link.was_cut.is_set()

    async def add() -> None:
        with pytest.raises(StoreUnavailable) as caught:
            await far.add_job("pay", idempotency_key="order-7")
        outcomes.append(caught.value.outcome)

    outcomes: list[str] = []
    async with anyio.create_task_group() as group:
        group.start_soon(add)
        await wait_until(refuse, description="the first try to be cut")
    link.mend()
    again = await far.add_job("pay", idempotency_key="order-7")

    assert ["unknown"] == outcomes
    assert ("deduplicated", [again.id]) == (again.outcome, await jobs(db, schema))


async def test_an_add_that_cannot_have_been_sent_is_not_repeated(
    far: Client, link: Link, db: asyncpg.Connection, schema: str
) -> None:
    """The caller decides whether to wait for an unreachable server."""
    await link_is_refused(link, far)
    with pytest.raises(StoreUnavailable) as caught:
        await far.add_job("pay", idempotency_key="order-7")

    assert "not_sent" == caught.value.outcome
    assert [] == await jobs(db, schema)


async def link_is_refused(link: Link, far: Client) -> None:
    """Refuse the link, and wait until the client's connections have noticed."""
    link.refuse("client")
    await wait_until(lambda: link.count("client") == 0, description="the client's connections to be cut")


async def test_a_job_that_was_rejected_is_rejected_when_it_is_tried_again(
    far: Client, link: Link, db: asyncpg.Connection, schema: str
) -> None:
    """A rejected request adds no job, so the database does not remember it."""
    first = await far.add_job("pay", unique=UniquePolicy())
    link.cut_at_answer_with(REJECTED)
    with pytest.raises(DuplicateJob) as caught:
        await far.add_job("pay", unique=UniquePolicy(), idempotency_key="order-7")

    assert link.was_cut.is_set()
    assert first.id == caught.value.existing_id
    assert [first.id] == await jobs(db, schema)


async def test_a_key_holds_for_the_clients_window(
    dsn: str, schema: str, db: asyncpg.Connection, client: Client
) -> None:
    """The default is a day."""
    left = f"select (extract(epoch from keep_until - now()) / 60)::int from {schema}._requests order by key"
    async with Client(dsn, schema=schema, idempotency_window=timedelta(hours=2)) as other:
        await other.add_job("pay", idempotency_key="a")
        await client.add_job("pay", idempotency_key="b")

    assert [120, 24 * 60] == [row[0] for row in await db.fetch(left)]


@pytest.mark.parametrize("window", [timedelta(0), timedelta(days=-1), timedelta(days=367), 3600, None], ids=str)
def test_a_window_that_cannot_work_is_refused(window: object) -> None:
    """The constructor refuses it: a number would have no unit."""
    with pytest.raises(
        asyncq.ConfigurationError, match="idempotency_window is a timedelta above 0 of at most 366 days"
    ):
        Client("postgresql:///app", idempotency_window=window)  # pyright: ignore[reportArgumentType]


# For as long as the caller says


async def test_a_client_that_may_retry_waits_for_the_server(link: Link, schema: str, db: asyncpg.Connection) -> None:
    """Every call: adds, reads, administration. Nothing was sent, so nothing happens twice."""
    async with Client(link.dsn, schema=schema, retry_for=timedelta(seconds=30)) as patient:
        first = await patient.add_job("pay")
        await link_is_refused(link, patient)
        async with asyncio.TaskGroup() as group:
            calls = [
                group.create_task(patient.add_job("pay")),
                group.create_task(patient.get_job(first.id)),
                group.create_task(patient.admin.counts()),
            ]
            await asyncio.sleep(0.1)
            done_before = [call.done() for call in calls]
            link.mend()

    assert [False] * 3 == done_before
    assert 2 == len(await jobs(db, schema))


async def test_a_client_that_may_retry_gives_up_when_its_time_is_over(link: Link, schema: str) -> None:
    """The error reports that nothing was added."""
    async with Client(link.dsn, schema=schema, retry_for=0.05) as patient:
        await patient.add_job("pay")
        await link_is_refused(link, patient)
        with pytest.raises(StoreUnavailable) as caught:
            await patient.add_job("pay")

    assert "not_sent" == caught.value.outcome


async def test_a_client_that_may_retry_tries_once_more_when_its_time_is_over(
    link: Link, schema: str, db: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next pause may be long, but `retry_for` is neither cut short nor exceeded."""
    monkeypatch.setattr(asyncq.store.retries, "PAUSES_S", (60.0,))
    async with Client(link.dsn, schema=schema, retry_for=0.4) as patient:
        first = await patient.add_job("pay")
        await link_is_refused(link, patient)
        async with asyncio.timeout(20), asyncio.TaskGroup() as group:
            group.create_task(patient.add_job("pay"))
            group.create_task(patient.get_job(first.id))
            await asyncio.sleep(0.1)
            link.mend()

    assert 2 == len(await jobs(db, schema))


async def test_a_client_that_may_retry_does_not_repeat_an_unknown_outcome(
    link: Link, schema: str, db: asyncpg.Connection
) -> None:
    """Without a key a second try could add a second job."""
    async with Client(link.dsn, schema=schema, retry_for=30) as patient:
        link.cut_at_answer_with(ADDED)
        with pytest.raises(StoreUnavailable) as caught:
            await patient.add_job("pay")

    assert "unknown" == caught.value.outcome
    assert 1 == len(await jobs(db, schema))


@pytest.mark.parametrize("is_frequent", [False, True])
@pytest.mark.parametrize("code", ["40001", "40P01"])
async def test_an_add_that_met_a_conflict_is_made_again(
    client: Client,
    db: asyncpg.Connection,
    schema: str,
    code: str,
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_frequent: bool,
) -> None:
    """The server rolled it back, whatever it conflicted with. Plain inserts are repeated too."""
    monkeypatch.setattr(add, "LOOK_S", 60.0)
    before = [(await client.add_job("pay")).id] if is_frequent else []
    await db.execute(
        f"""
        create sequence {schema}.hits;
        create function {schema}.fail_twice() returns trigger language plpgsql as $$
        begin
          if nextval('{schema}.hits') <= 2 then
            raise exception 'injected' using errcode = '{code}';
          end if;
          return null;
        end $$;
        create trigger fail_twice after insert on {schema}._jobs execute function {schema}.fail_twice()"""
    )
    added = await client.add_job("pay")

    assert [*before, added.id] == await jobs(db, schema)
