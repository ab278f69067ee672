"""`_wake_workers`, and when an add calls it: workers hear of due jobs at commit, once a transaction."""

from collections.abc import AsyncIterator

import pytest

from asyncq.testing import temporary_schema
from tests.sql.session import Session, session


class Ear:
    """What a session hears on the channel of a schema."""

    def __init__(self, listener: Session) -> None:
        self._listener = listener
        self._heard: list[tuple[str, str]] = []

    async def open(self) -> None:
        """Begin to listen."""
        await self._listener.connection.add_listener(f"{self._listener.schema}:jobs", self._hear)

    def _hear(self, _connection: object, _pid: int, channel: str, payload: str) -> None:
        self._heard.append((channel, payload))

    async def heard(self) -> list[tuple[str, str]]:
        """All that came so far: the server sends what it has before it answers."""
        await self._listener.rows("select")
        return self._heard


@pytest.fixture
async def ear(dsn: str, schema: str) -> AsyncIterator[Ear]:
    """An ear at the channel of the test's own schema."""
    async with session(dsn, schema) as listener:
        opened = Ear(listener)
        await opened.open()
        yield opened


ONCE = 1
SOON = "('t', null, null, null, null, null, null, null)::asyncq.job_spec"
LATER = "('t', null, null, now() + interval '1 day', null, null, null, null)::asyncq.job_spec"


@pytest.mark.parametrize(
    "add",
    [
        "select asyncq.add_job('t')",
        "select asyncq.add_job('t', run_at := now() - interval '1 year')",
        "select asyncq.add_job('t', run_at := now() + interval '59 s')",
        f"select asyncq.add_jobs(array[{SOON}])",
        f"select asyncq.add_jobs(array[{LATER}, {SOON}])",
        "select asyncq._wake_workers()",
    ],
)
async def test_an_add_of_a_job_that_is_due_soon_is_heard(own: Session, ear: Ear, add: str) -> None:
    """Idle workers start it within a millisecond; they look for later ones by themselves."""
    await own.execute(add)

    assert [(f"{own.schema}:jobs", "")] == await ear.heard()


@pytest.mark.parametrize(
    "add",
    [
        "select asyncq.add_job('t', run_at := now() + interval '61 s')",
        f"select asyncq.add_jobs(array[{LATER}])",
        "select asyncq.add_jobs('{}')",
    ],
)
async def test_an_add_of_a_job_that_is_due_later_is_not_heard(own: Session, ear: Ear, add: str) -> None:
    """A notification takes a lock of the whole server at commit; a worker looks at least once a minute anyway."""
    await own.execute(add)

    assert [] == await ear.heard()


async def test_a_hundred_adds_in_one_transaction_are_heard_once(own: Session, ear: Ear) -> None:
    """The text is constant, and the server folds equal notifications, of sub-transactions too."""
    async with own.connection.transaction():
        for _ in range(50):
            await own.execute("select asyncq.add_job('t')")
        async with own.connection.transaction():
            await own.execute("select asyncq.add_job('t') from generate_series(1, 50)")

    assert ONCE == len(await ear.heard())


async def test_an_add_is_heard_at_commit(own: Session, ear: Ear) -> None:
    """Before it, a worker would look, see nothing, and sleep."""
    async with own.connection.transaction():
        await own.execute("select asyncq.add_job('t')")
        before = len(await ear.heard())

    assert (0, ONCE) == (before, len(await ear.heard()))


async def test_an_add_that_is_rolled_back_is_not_heard(own: Session, ear: Ear) -> None:
    """There is nothing to run."""
    transaction = own.connection.transaction()
    await transaction.start()
    await own.execute("select asyncq.add_job('t')")
    await transaction.rollback()

    assert [] == await ear.heard()


async def test_a_savepoint_that_is_rolled_back_is_not_heard(own: Session, ear: Ear) -> None:
    """The same, for a part of a transaction."""
    async with own.connection.transaction():
        await own.refusal("select asyncq.add_job('t'), 1 / 0")

    assert [] == await ear.heard()


async def test_the_instant_decides_and_not_the_start_of_a_long_transaction(own: Session, ear: Ear) -> None:
    """In a transaction of ten minutes, a time in 30 seconds is more than a minute after its start."""
    await own.execute("""
        create or replace function asyncq.now() returns timestamptz language sql stable
        as $$ select pg_catalog.now() - interval '10 min' $$;
        select asyncq.add_job('t', run_at := clock_timestamp() + interval '30 s');""")

    assert ONCE == len(await ear.heard())


async def test_two_schemas_never_hear_each_other(dsn: str, own: Session, ear: Ear) -> None:
    """Several applications share a database; neither may cost the others."""
    async with temporary_schema(dsn) as other, session(dsn, other) as stranger:
        await stranger.execute("select asyncq.add_job('t')")

        assert [] == await ear.heard()
