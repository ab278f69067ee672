"""`end_transactions`: the transaction of a dead worker does not hold a job for ever."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest

from tests.support.jobs import add, claimed, fetch
from tests.support.session import Session, session
from tests.support.waiting import wait_until

REGISTER = """
insert into asyncq._workers (lease, pid, concurrency, host, tasks, last_seen)
values ('30 s', 1, 1, 'h', '{}', clock_timestamp() - make_interval(secs => $1)) returning id"""


@asynccontextmanager
async def holding(
    dsn: str, sql: Session, *, silent_s: float, user: str | None = None
) -> AsyncIterator[tuple[Session, int, int]]:
    """A session whose transaction holds a job of a worker that was silent for so long; the worker and the job."""
    worker = await sql.value(REGISTER, silent_s)
    job = await add(sql)
    (claim,) = await fetch(sql, worker=worker)
    async with session(dsn, sql.schema, user=user) as handler:
        await handler.connection.execute("begin")
        await handler.run("lock_claim", worker, job, claim["lock_token"])
        yield handler, worker, job
    await sql.execute("delete from asyncq._workers")


async def test_a_worker_that_was_silent_for_two_leases_loses_its_transactions(dsn: str, claiming: Session) -> None:
    """The worker was paused, or its machine is gone unnoticed. Others get its job at once."""
    async with holding(dsn, claiming, silent_s=61) as (handler, worker, job):
        before = await claiming.values("select job_id from asyncq._rescue_jobs(true)")
        ended = [tuple(row) for row in await claiming.run("end_transactions")]
        after = await claiming.values("select job_id from asyncq._rescue_jobs(true)")
        with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError)):
            await handler.value("select 1")

    assert ([], [(worker, job)], [job]) == (before, ended, after)


async def test_transactions_are_found_with_any_settings_of_the_caller(dsn: str, claiming: Session) -> None:
    """Some roles and databases read a backslash in a plain literal as an escape."""
    async with holding(dsn, claiming, silent_s=61) as (handler, worker, job):
        await claiming.execute("set standard_conforming_strings = off; set escape_string_warning = off")
        ended = [tuple(row) for row in await claiming.run("end_transactions")]
        await claiming.execute("reset standard_conforming_strings")
        await wait_until(handler.connection.is_closed, description="the end of the connection to arrive")

    assert [(worker, job)] == ended


async def test_a_worker_that_could_not_reach_the_server_keeps_its_transactions(dsn: str, claiming: Session) -> None:
    """The server has just returned: the transaction began after that, and the next beat is on its way."""
    async with holding(dsn, claiming, silent_s=61) as (handler, _, job):
        await claiming.execute("delete from asyncq._server_runs")
        ended = await claiming.run("end_transactions")
        held = await handler.values("select id from asyncq._jobs where id = $1 and locked_by is not null", job)

    assert ([], [job]) == (ended, held)


async def test_a_worker_that_is_only_late_keeps_its_transactions(dsn: str, claiming: Session) -> None:
    """It may come back, and its handlers are still running."""
    async with holding(dsn, claiming, silent_s=59) as (handler, _, job):
        ended = await claiming.run("end_transactions")

        assert ([], 1, [job]) == (ended, await handler.value("select 1"), await claimed(claiming))


async def test_only_the_transactions_of_the_silent_are_ended(dsn: str, claiming: Session) -> None:
    """Transactions of other workers continue."""
    async with (
        holding(dsn, claiming, silent_s=0) as (handler, _, kept),
        holding(dsn, claiming, silent_s=61) as (gone, silent, _),
    ):
        ended = [row["worker_id"] for row in await claiming.run("end_transactions")]
        await wait_until(gone.connection.is_closed, description="the end of the connection to arrive")
        await claiming.rows("select from asyncq._rescue_jobs(true)")

        assert ([silent], 1, [kept]) == (ended, await handler.value("select 1"), await claimed(claiming))


async def test_a_transaction_that_the_role_may_not_end_is_left_alone(dsn: str, claiming: Session) -> None:
    """It belongs to a superuser, or to a role without membership. Other transactions are still ended."""
    role = f"weak_{claiming.schema}"
    async with holding(dsn, claiming, silent_s=61) as (handler, _, job):
        await claiming.execute(f"""
            create role {role}; grant pg_read_all_stats to {role};
            grant usage on schema asyncq to {role};
            grant select on all tables in schema asyncq to {role};
            grant execute on all functions in schema asyncq to {role}; set role {role}""")
        ended = await claiming.run("end_transactions")
        await claiming.execute(f"reset role; drop owned by {role}; drop role {role}")

        assert ([], 1, [job]) == (ended, await handler.value("select 1"), await claimed(claiming))


@asynccontextmanager
async def two_logins(sql: Session) -> AsyncGenerator[tuple[str, str]]:
    """The names of two roles that log in, and have all rights in the schema but none over each other."""
    names = (f"one_{sql.schema}", f"two_{sql.schema}")
    for name in names:
        await sql.execute(f"""
            create role {name} login;
            grant usage on schema asyncq to {name};
            grant select, insert, update, delete on all tables in schema asyncq to {name};
            grant execute on all functions in schema asyncq to {name}""")
    yield names
    for name in names:
        await sql.execute(f"drop owned by {name}; drop role {name}")


async def test_a_transaction_that_the_role_may_not_end_is_reported(dsn: str, claiming: Session) -> None:
    """Its job waits until it ends, and nothing else shows the reason."""
    said: list[str] = []
    async with (
        two_logins(claiming) as (one, two),
        holding(dsn, claiming, silent_s=61, user=one) as (handler, worker, job),
        session(dsn, claiming.schema, user=two) as other,
    ):
        other.connection.add_log_listener(lambda _, notice: said.append(notice.message))
        ended = await other.run("end_transactions")
        pid = handler.connection.get_server_pid()
        await wait_until(lambda: bool(said), description="the warning")

    what = f"the transaction of worker {worker} (job {job}, server process {pid}, role {one})"
    assert ([], [f"{what} cannot be ended by role {two}"]) == (ended, said)


async def test_a_role_that_may_end_any_transaction_needs_no_more(dsn: str, claiming: Session) -> None:
    """Names are shown to everybody; other fields of a transaction may be hidden."""
    async with (
        two_logins(claiming) as (one, two),
        holding(dsn, claiming, silent_s=61, user=one) as (_, worker, job),
        session(dsn, claiming.schema, user=two) as other,
    ):
        await claiming.execute(f"grant pg_signal_backend to {two}")
        ended = [tuple(row) for row in await other.run("end_transactions")]

    assert [(worker, job)] == ended


async def test_an_unlock_by_force_does_not_wait_for_ever(dsn: str, claiming: Session) -> None:
    """It says who holds what, and changes nothing. A caller that has less patience keeps it."""
    async with (
        two_logins(claiming) as (one, two),
        holding(dsn, claiming, silent_s=0, user=one) as (handler, worker, job),
        session(dsn, claiming.schema, user=two, lock_timeout="300ms") as other,
    ):
        error = await other.refusal("select from asyncq.force_unlock_workers($1)", [str(worker)])
        left = await claiming.values("select id from asyncq._workers")
        pid = handler.connection.get_server_pid()

    assert ("55P03", [worker]) == (error.sqlstate, left)
    assert error.message == (
        f'no worker was unlocked: the transaction "{claiming.schema} worker {worker} job {job}" (server process {pid}, '
        f"role {one}) holds a job; to end it, role {two} has to be a member of that role, or of pg_signal_backend"
    )


async def test_a_worker_that_is_unlocked_by_force_is_not_waited_for(dsn: str, claiming: Session) -> None:
    """The administrator knows, or decides, that the worker has ended."""
    async with holding(dsn, claiming, silent_s=0) as (handler, worker, job):
        unlocked = await claiming.values("select id from asyncq.force_unlock_workers($1)", [str(worker), "no number"])
        await wait_until(handler.connection.is_closed, description="the end of the connection to arrive")

    assert ([job], []) == (unlocked, await claimed(claiming))


async def test_the_transaction_of_a_job_bears_its_name_as_long_as_it_lasts(dsn: str, claiming: Session) -> None:
    """An administrator can then find the owner of an open transaction."""
    async with holding(dsn, claiming, silent_s=0) as (handler, worker, job):
        names = [await handler.value("show application_name")]
        await handler.connection.execute("rollback")
        names.append(await handler.value("show application_name"))

    assert [f"{claiming.schema} worker {worker} job {job}", "test"] == names
