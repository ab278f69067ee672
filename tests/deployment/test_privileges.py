"""Real workers and clients under the three roles: each can do its work, and gets an error for the rest."""

import asyncio
import re
import secrets
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from anyio.to_thread import run_sync

from asyncq import (
    AccessDenied,
    Client,
    CronBackfilled,
    CronFailed,
    CronItem,
    CronItemFailed,
    CronItemsChanged,
    Discard,
    FetchFailed,
    HeartbeatFailed,
    JobCancelled,
    JobCompleted,
    JobContext,
    JobDiscarded,
    JobNotFound,
    JobRetried,
    JobSnoozed,
    JobsRescued,
    JobStarted,
    JobState,
    ListenConnected,
    ListenLost,
    MaintenanceFailed,
    RetryAfter,
    SettleFailed,
    Snooze,
    UnknownTasks,
    Worker,
    WorkerStopped,
    task,
)
from asyncq.cli import main
from tests.support.example_program import fresh_database
from tests.support.roles import Roles, three_roles
from tests.support.seen import Seen
from tests.support.session import session
from tests.support.waiting import wait_until

REFUSALS = (FetchFailed, HeartbeatFailed, ListenLost, MaintenanceFailed, SettleFailed)


@pytest.fixture
async def roles(dsn: str) -> AsyncIterator[Roles]:
    """Three roles on a schema of their own."""
    async with three_roles(dsn) as made:
        yield made


@task(max_attempts=3)
async def end(ctx: JobContext, how: str) -> None:
    """End in one of the ways that there are, the second time well."""
    if ctx.attempt == 1 and how == "retry":
        raise RetryAfter(0)
    if how == "fail":
        raise Discard("no use")
    if how == "snooze":
        raise Snooze(3600)
    if how == "add":
        times = (datetime.now(UTC) + timedelta(hours=1), None)
        outcomes = [(await ctx.add_job(end.job(how="well"), job_key="next", run_at=at)).outcome for at in times]
        assert outcomes == ["added", "updated"]


async def a_dead_worker(roles: Roles) -> None:
    """Leave a claim of a dead worker, and a job of an unknown task."""
    async with session(roles.dsn, roles.schema) as sql:
        await sql.execute("""
            select asyncq.add_job('end', '{"how": "well"}', queue_name := 'left'), asyncq.add_job('unheard_of');
            insert into asyncq._workers (lease, pid, concurrency, host, tasks, last_seen)
              values ('1 s', 1, 1, 'gone', '{}', clock_timestamp() - interval '1 hour');
            insert into asyncq._partitions (id, key, running)
              select partition, queue, 1 from asyncq._jobs where queue = 'left';
            update asyncq._jobs set locked_at = now(), lock_token = 1, locked_by = (select max(id) from asyncq._workers)
              where queue is not null""")


async def test_the_worker_role_does_all_that_a_worker_does(roles: Roles) -> None:
    """Jobs end in each way, queues are serial, a handler adds with keys, and a dead worker is rescued."""
    await a_dead_worker(roles)
    seen = Seen()
    dsn = roles.dsn_of(roles.worker)
    async with Client(dsn, schema=roles.schema) as client:
        await client.add_jobs([end.job(how=how) for how in ("well", "retry", "fail", "snooze", "add")])
        await client.add_jobs([end.job(how="well").with_options(queue="line", flags=["f"]) for _ in range(2)])
        worker = Worker(dsn, [end], schema=roles.schema, observers=[seen], forbidden_flags=["g"])
        async with worker.start():
            await seen.wait_for(JobCompleted, 7)
            await seen.wait_for(JobDiscarded)
            await seen.wait_for(JobSnoozed)
        failed = await client.get_job(seen.ids(JobDiscarded)[0])
    async with session(dsn, roles.schema) as sql:
        added = await sql.value("select id from asyncq.add_job('end', job_key := 'k')")
        removed = await sql.value("select id from asyncq.remove_job('k')")

    assert [] == [event for kind in REFUSALS for event in seen.of(kind)]
    assert [1] * 5 == [
        len(seen.of(kind)) for kind in (JobRetried, JobsRescued, UnknownTasks, ListenConnected, WorkerStopped)
    ]
    assert (JobState.DISCARDED, added) == (failed.state, removed)


async def test_the_worker_role_settles_jobs_in_transactions(roles: Roles) -> None:
    """The worker's and the handler's own transactions work; the worker may ask for the outcome of the latter."""
    seen = Seen()
    dsn = roles.dsn_of(roles.worker)
    own = await asyncpg.connect(dsn)

    @task(transactional=True, queue="line")
    async def shared(ctx: JobContext) -> None:
        await ctx.add_job(complete)

    @task
    async def complete(ctx: JobContext) -> None:
        async with own.transaction():
            await ctx.complete(connection=own)

    worker = Worker(dsn, [shared, complete], schema=roles.schema, observers=[seen])
    async with Client(dsn, schema=roles.schema) as client, worker.start():
        await client.add_job(shared)
        await seen.wait_for(JobCompleted, 2)
    await own.close(timeout=5)

    assert ["shared", "complete"] == [event.task for event in seen.of(JobCompleted)]
    assert [] == [event for kind in REFUSALS for event in seen.of(kind)]


async def test_the_enqueuer_role_adds_by_the_client(roles: Roles) -> None:
    """It adds one job, many, with keys, and in its own transaction; a worker runs them."""
    seen = Seen()
    dsn = roles.dsn_of(roles.enqueuer)
    connection = await asyncpg.connect(dsn)
    async with Client(dsn, schema=roles.schema) as client:
        one = await client.add_job(end.job(how="well"), priority=3, flags=["f"], meta={"m": 1})
        many = await client.add_jobs([end.job(how="well").with_options(queue="line") for _ in range(3)])
        keyed = [await client.add_job("end", {"how": "well"}, job_key="k") for _ in range(2)]
        transaction = connection.transaction()
        await transaction.start()
        await client.add_job(end.job(how="fail"), connection=connection)
        await transaction.rollback()
        async with connection.transaction():
            own = await client.add_job(end.job(how="well"), connection=connection)
    await connection.close(timeout=5)
    await Worker(roles.dsn_of(roles.worker), [end], schema=roles.schema, observers=[seen]).run_once()

    assert ["added", "updated"] == [added.outcome for added in keyed]
    assert keyed[0].id == keyed[1].existing_id
    assert {added.id for added in (one, *many, keyed[0], own)} == set(seen.ids(JobCompleted))
    assert [] == seen.of(JobDiscarded)


async def test_the_worker_role_adds_recurring_jobs(roles: Roles) -> None:
    """They include missed slots, jobs with a key, and jobs under a policy."""
    seen = Seen()
    dsn = roles.dsn_of(roles.worker)
    unique = task(name="unique", singleton=True)(end.handler)
    crontab = """
        * * * * *  end     ?id=plain&fill=5m            {how: 'well'}
        * * * * *  end     ?id=keyed&fill=5m&jobKey=k   {how: 'well'}
        * * * * *  unique  ?fill=5m                     {how: 'well'}"""
    async with session(dsn, roles.schema) as sql:
        await sql.rows("select from asyncq._register_crontabs('{plain,keyed,unique}')")
        await sql.execute("update asyncq.known_crontabs set known_since = now() - interval '3 minutes'")
    worker = Worker(dsn, [end, unique], schema=roles.schema, observers=[seen], crontab=crontab)
    async with worker.start():
        backfilled = await seen.wait_for(CronBackfilled)
        await seen.wait_for(JobCompleted)

    assert ("plain", "keyed", "unique") == backfilled.items
    assert [] == [event for kind in (CronFailed, CronItemFailed) for event in seen.of(kind)]


async def test_the_worker_role_stores_changes_and_runs_recurring_items(roles: Roles) -> None:
    """All calls work, and the worker receives the changes. An enqueuer can call none of them."""
    seen = Seen()
    dsn = roles.dsn_of(roles.worker)
    item = CronItem("end", "@daily", payload={"how": "well"}, overlap="skip")
    async with Client(dsn, schema=roles.schema) as client:
        async with Worker(dsn, [end], schema=roles.schema, observers=[seen]).start():
            await client.cron.add(item)
            await seen.wait_for(CronItemsChanged)
            await client.cron.change("end", match="@hourly")
            await client.cron.pause("end")
            await client.cron.resume("end")
            await client.cron.run("end")
            await seen.wait_for(JobCompleted)
            listed = await client.cron.list_items()
        await client.cron.remove("end")
    async with Client(roles.dsn_of(roles.enqueuer), schema=roles.schema) as enqueuer:
        for call in (
            lambda: enqueuer.cron.add(item),
            lambda: enqueuer.cron.run("end"),
            lambda: enqueuer.cron.pause("end"),
            enqueuer.cron.list_items,
        ):
            with pytest.raises(AccessDenied):
                await call()

    assert ("end", "@hourly", 1) == (listed[0].identifier, listed[0].expression, len(listed[0].workers))
    assert [] == [event for kind in (CronFailed, CronItemFailed) for event in seen.of(kind)]


async def test_a_client_that_was_never_opened_asks_the_first_connection_that_it_is_given(roles: Roles) -> None:
    """A service that only adds in its own transactions needs no pool of the client's."""
    connection = await asyncpg.connect(roles.dsn_of(roles.enqueuer))
    client = Client(roles.dsn_of(roles.enqueuer), schema=roles.schema)
    async with connection.transaction():
        outcomes = [(await client.add_job("end", {"how": "well"}, connection=connection)).outcome for _ in range(2)]
    await connection.close(timeout=5)

    assert ["added"] * 2 == outcomes


async def test_an_add_wakes_a_worker_of_another_role(roles: Roles) -> None:
    """The notification is sent with the rights of the owner, and has no privileges to be granted."""
    seen = Seen()
    worker = Worker(roles.dsn_of(roles.worker), [end], schema=roles.schema, observers=[seen], poll=60)
    async with worker.start(), Client(roles.dsn_of(roles.enqueuer), schema=roles.schema) as client:
        await seen.wait_for(ListenConnected)
        await client.add_job(end.job(how="well"))
        await seen.wait_for(JobCompleted)

    assert 1 == len(seen.of(JobCompleted))


@task
async def wait_for_release() -> None:
    """Run until the test releases it."""
    await release.wait()


release = asyncio.Event()


async def test_a_forged_message_ends_no_job(roles: Roles) -> None:
    """NOTIFY has no privileges, and ids can be guessed. The worker checks the rows, where nothing is cancelled."""
    release.clear()
    seen = Seen()
    dsn = roles.dsn_of(roles.worker)
    async with Client(dsn, schema=roles.schema) as client, session(roles.dsn, roles.schema) as sql:
        added = await client.add_job(wait_for_release)
        async with Worker(dsn, [wait_for_release], schema=roles.schema, observers=[seen]).start():
            await seen.wait_for(JobStarted)
            claim = await sql.row("select locked_by, id, lock_token from asyncq._all_jobs()")
            beaten_at = await sql.value("select last_seen from asyncq._workers")
            async with session(roles.dsn_of(roles.stranger), roles.schema) as stranger:
                await stranger.rows("select pg_notify($1, $2)", f"{roles.schema}:cancel", " ".join(map(str, claim)))

            async def has_looked() -> bool:
                return beaten_at < await sql.value("select last_seen from asyncq._workers")

            await wait_until(has_looked, description="the worker to look in the rows")
            release.set()
            await seen.wait_for(JobCompleted)

    assert ([added.id], []) == (seen.ids(JobCompleted), seen.of(JobCancelled))


async def test_an_enqueuer_cancels_a_job_with_the_same_unique_key_and_no_other(roles: Roles) -> None:
    """SECURITY.md and the guide document it: an add by that role may change other jobs as any add may."""
    go_on = asyncio.Event()

    @task
    async def work() -> None:
        await go_on.wait()

    seen = Seen()
    dsn, policy = roles.dsn_of(roles.worker), {"on_conflict": "replace"}
    async with Client(dsn, schema=roles.schema) as client:
        singleton = await client.add_job(work, singleton=True)
        others = [await client.add_job(work, **how) for how in ({}, {"singleton": True, "subject": "s"})]
        others.append(await client.add_job(work, job_key="k"))
        waiting = await client.add_job("other", singleton=True)
        async with Worker(dsn, [work], schema=roles.schema, observers=[seen], grace=0.1).start():
            await seen.wait_for(JobStarted, 4)
            async with Client(roles.dsn_of(roles.enqueuer), schema=roles.schema) as web:
                replaced = [
                    await web.add_job(name, unique=policy, run_at=datetime.now(UTC) + timedelta(days=1))
                    for name in ("work", "other")
                ]
            await seen.wait_for(JobCancelled)
            go_on.set()
            await seen.wait_for(JobCompleted, 3)
        with pytest.raises(JobNotFound):
            await client.get_job(waiting.id)

    assert [singleton.id, waiting.id] == [added.existing_id for added in replaced]
    assert ([singleton.id], {added.id for added in others}) == (seen.ids(JobCancelled), set(seen.ids(JobCompleted)))


async def read_a_job(client: Client) -> None:
    """Needs the view."""
    await client.get_job(1)


async def run_jobs(client: Client) -> None:
    """Needs nearly everything."""
    database: Any = client._database
    await Worker(database.dsn, [end], schema=database.schema).run_once()


async def add_a_job(client: Client) -> None:
    """Needs one function."""
    await client.add_job("end")


async def bring_up_to_date(client: Client) -> None:
    """Needs the schema."""
    await client.migrate()


REFUSED = {
    ("enqueuer", read_a_job): "permission denied for .*; `asyncq roles --schema .*` shows what a role needs",
    ("enqueuer", run_jobs): "permission denied for .*; `asyncq roles --schema .*` shows what a role needs",
    ("enqueuer", bring_up_to_date): "belongs to .*_owner, and .*_enqueuer cannot act for it; run `asyncq migrate --",
    ("worker", bring_up_to_date): "belongs to .*_owner, and .*_worker cannot act for it; run `asyncq migrate --",
}


@pytest.mark.parametrize(("role", "action"), REFUSED)
async def test_an_action_without_the_right_is_refused_with_an_explanation(roles: Roles, role: str, action: Any) -> None:
    """The error names the refused action and how to get the right. The call neither hangs nor is ignored."""
    async with Client(roles.dsn_of(getattr(roles, role)), schema=roles.schema) as client:
        with pytest.raises(AccessDenied, match=REFUSED[role, action]):
            await action(client)


async def test_a_role_without_rights_is_refused_when_the_client_opens(roles: Roles) -> None:
    """The service fails at its start, not with its first job."""
    with pytest.raises(AccessDenied, match="permission denied for schema"):
        await Client(roles.dsn_of(roles.stranger), schema=roles.schema).open()


async def test_a_refused_worker_leaves_nothing_behind(roles: Roles) -> None:
    """It ends at once with the error, without a connection."""
    async with session(roles.dsn, roles.schema) as sql:
        with pytest.raises(AccessDenied):
            async with Worker(roles.dsn_of(roles.enqueuer), [end], schema=roles.schema).start():
                pass

        async def all_closed() -> bool:
            return not await sql.value(
                "select count(*) from pg_catalog.pg_stat_activity where application_name like $1", f"{sql.schema} %"
            )

        await wait_until(all_closed, description="its connections to be closed")


PAGE = (Path(__file__).parents[2] / "docs/guide/privileges.md").read_text()


async def test_the_set_up_of_the_guide_works_as_it_is_written(dsn: str) -> None:
    """It is a block of SQL and two commands, then a service and a worker. Only names differ."""
    tag = f"t{secrets.token_hex(6)}"
    statements = re.search(r"^-- as a superuser.*?^```", PAGE, re.MULTILINE | re.DOTALL)[0].removesuffix("```")
    commands = re.findall(r"^ +DATABASE_URL=postgresql://(\w+)@/app asyncq (.*)$", PAGE, re.MULTILINE)
    async with fresh_database(dsn) as database, session(database, "asyncq") as sql:
        name = await sql.value("select current_database()")
        named = Roles(database, "asyncq")
        roles = [f"{tag}_{what}" for what in ("owner", "worker", "web")]
        await sql.execute(statements.replace("database app ", f"database {name} ").replace("app_", f"{tag}_"))
        codes = [
            await run_sync(
                main, [*words.replace("app_", f"{tag}_").split(), "--dsn", named.dsn_of(by.replace("app_", f"{tag}_"))]
            )
            for by, words in commands
        ]
        async with Client(named.dsn_of(roles[2])) as client:
            await client.add_job(end.job(how="well"))
        await Worker(named.dsn_of(roles[1]), [end]).run_once()
        left = await sql.value("select count(*) from asyncq._all_jobs()")
        await sql.execute("".join(f"drop owned by {role} cascade; drop role {role};" for role in roles))

    assert ([0, 0], 0) == (codes, left)


async def test_an_owner_that_may_create_schemas_migrates(dsn: str) -> None:
    """No superuser is needed, and no extension."""
    owner = f"owner_{secrets.token_hex(6)}"
    async with fresh_database(dsn) as database, session(database, "asyncq") as sql:
        name = await sql.value("select current_database()")
        await sql.execute(f"create role {owner}; grant create on database {name} to {owner}")
        try:
            client = Client(Roles(database, "asyncq").dsn_of(owner))
            report = await client.migrate()
            async with client:
                added = await client.add_job("t")
            owned = await sql.value("select pg_get_userbyid(nspowner) from pg_namespace where nspname = 'asyncq'")
        finally:
            await sql.execute(f"drop owned by {owner} cascade; drop role {owner}")

    assert (report.newest, "added", owner) == (report.version, added.outcome, owned)
