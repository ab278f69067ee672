"""`client.cron`: recurring items at run time, without a worker: stored, changed, paused, resumed, removed, run."""

from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import msgspec
import pytest

from asyncq import (
    Client,
    CronItem,
    CronItemConflict,
    CronItemNotFound,
    CronStatus,
    DuplicateJob,
    InvalidCrontab,
    UniquePolicy,
    UnknownTask,
    task,
)

DAILY = CronItem("report", "0 8 * * *", tz="Europe/Berlin", payload={"to": "a"}, fill=timedelta(hours=1), queue="q")


@task(name="known", max_attempts=7, flags=["slow"], queue="kq")
async def known(day: str = "") -> None:
    """A task with defaults."""


async def declare(db: asyncpg.Connection, schema: str, **items: dict[str, Any]) -> int:
    """A live worker whose crontab has these items; returns its id. The test removes it."""
    worker: int = await db.fetchval(
        f"""insert into {schema}._workers (lease, pid, concurrency, host, tasks, cron)
        values ('1 hour', 1, 1, 'h', '{{report}}', $1::text::jsonb) returning id""",
        msgspec.json.encode(items).decode(),
    )
    return worker


async def test_an_item_that_was_added_is_listed_with_all_its_fields(client: Client) -> None:
    """It is returned with its next run, which needs no worker."""
    added = await client.cron.add(DAILY)
    [listed] = await client.cron.list_items()

    assert added == listed == await client.cron.get_item("report")
    expected = CronStatus(
        identifier="report",
        source="stored",
        task="report",
        expression="0 8 * * *",
        dialect="extended",
        tz="Europe/Berlin",
        payload='{"to": "a"}',
        fill=timedelta(hours=1),
        overlap="allow",
        queue="q",
        known_since=added.known_since,
        next_run=added.next_run,
    )
    assert expected == added
    assert added.known_since is not None
    assert added.next_run is not None
    assert added.next_run.hour in (6, 7)


async def test_fields_that_an_item_leaves_out_are_not_stored(
    client: Client, db: asyncpg.Connection, schema: str
) -> None:
    """The defaults of its task then apply, even if they change later."""
    await client.cron.add(CronItem(known, "@daily"))
    stored = await db.fetchval(f"select definition::text from {schema}._cron_items")

    assert {"task": "known", "expression": "@daily"} == msgspec.json.decode(stored)


async def test_a_second_item_of_an_identifier_is_refused(client: Client) -> None:
    """It would share the slots of the first one. The error suggests a change or another name."""
    await client.cron.add(DAILY)
    with pytest.raises(CronItemConflict, match="there is a stored item 'report' already; it can be changed") as caught:
        await client.cron.add(CronItem("report", "* * * * *"))

    assert ("stored", "0 8 * * *") == (caught.value.source, (await client.cron.get_item("report")).expression)


async def test_an_item_of_a_live_worker_prevents_a_stored_one_of_its_name(
    client: Client, db: asyncpg.Connection, schema: str
) -> None:
    """The static item cannot be changed or removed either, only paused."""
    worker = await declare(db, schema, report={"task": "report", "expression": "0 8 * * *"})
    for call in (
        lambda: client.cron.add(DAILY),
        lambda: client.cron.change("report", match="0 9 * * *"),
        lambda: client.cron.remove("report"),
    ):
        with pytest.raises(CronItemConflict, match="crontab of") as caught:
            await call()
        assert "static" == caught.value.source
    paused = await client.cron.pause("report")
    await db.execute(f"delete from {schema}._workers")

    assert ("static", "0 8 * * *", (str(worker),)) == (paused.source, paused.expression, paused.workers)
    assert paused.paused_at is not None
    assert None is paused.next_run
    assert "stored" == (await client.cron.add(DAILY)).source


@pytest.mark.parametrize(
    ("item", "error", "said"),
    [
        (CronItem("t", lambda now: True), InvalidCrontab, "match is a function, which cannot be stored"),
        ("* * * * * t", InvalidCrontab, "an item must be a CronItem"),
    ],
    ids=["function", "text"],
)
async def test_an_invalid_item_is_refused(client: Client, item: Any, error: type[Exception], said: str) -> None:
    """It is refused before the database is asked."""
    with pytest.raises(error, match=said):
        await client.cron.add(item)


async def test_a_client_with_tasks_checks_items_against_them(dsn: str, schema: str) -> None:
    """Jobs that are added by name are checked in the same way."""
    async with Client(dsn, schema=schema, tasks=[known]) as client:
        with pytest.raises(UnknownTask):
            await client.cron.add(DAILY)
        with pytest.raises(InvalidCrontab, match="payload of task 'known': Expected `str`, got `int`"):
            await client.cron.add(CronItem("known", "* * * * *", payload={"day": 1}))
        await client.cron.add(CronItem("known", "* * * * *"))
        with pytest.raises(InvalidCrontab, match="payload of task 'known': Expected `str`, got `int`"):
            await client.cron.change("known", payload={"day": 1})
        with pytest.raises(UnknownTask):
            await client.cron.change("known", task="other")


async def test_a_change_leaves_the_rest_as_it_is(client: Client) -> None:
    """None resets a field to its default."""
    await client.cron.add(DAILY)
    changed = await client.cron.change("report", match="30 9 * * *", overlap="skip", queue=None, tz=None)

    assert ("30 9 * * *", "skip", None, "UTC") == (changed.expression, changed.overlap, changed.queue, changed.tz)
    assert ('{"to": "a"}', timedelta(hours=1), "report") == (changed.payload, changed.fill, changed.task)
    assert changed.next_run is not None
    assert (9, 30) == (changed.next_run.hour, changed.next_run.minute)


async def test_a_change_that_makes_no_item_changes_nothing(client: Client) -> None:
    """All problems are reported, as for a new item."""
    before = await client.cron.add(DAILY)
    wrong: Any = "queue"
    with pytest.raises(InvalidCrontab) as caught:
        await client.cron.change("report", match="60 * * * *", overlap=wrong)
    with pytest.raises(TypeError, match="no field 'known_since' that can be changed"):
        await client.cron.change("report", known_since="x")

    assert ["match", "overlap"] == [problem.field for problem in caught.value.problems]
    assert before == await client.cron.get_item("report")


async def test_a_missing_item_is_an_error(client: Client) -> None:
    """Every call on it raises CronItemNotFound."""
    for call in (
        client.cron.get_item,
        client.cron.change,
        client.cron.pause,
        client.cron.resume,
        client.cron.remove,
        client.cron.run,
    ):
        with pytest.raises(CronItemNotFound, match="there is no recurring item 'nobody'"):
            await call("nobody")


async def test_a_pause_is_kept_until_it_is_resumed(client: Client) -> None:
    """The second pause does not move the first one; a second resume does nothing."""
    await client.cron.add(DAILY)
    first, second = await client.cron.pause("report"), await client.cron.pause("report")
    resumed = await client.cron.resume("report")

    assert first.paused_at is not None
    assert first == second
    assert (None, True) == (resumed.paused_at, resumed.next_run is not None)
    assert resumed == await client.cron.resume("report")


async def test_an_item_is_removed_with_its_pause(client: Client) -> None:
    """A later item of the same name is not paused."""
    await client.cron.add(DAILY)
    await client.cron.pause("report")
    removed = await client.cron.remove("report")

    assert ("report", True, []) == (
        removed.identifier,
        removed.paused_at is not None,
        await client.cron.list_items(),
    )
    assert None is (await client.cron.add(DAILY)).paused_at


async def test_the_history_of_an_item_of_no_worker_is_listed_and_can_be_removed(
    client: Client, db: asyncpg.Connection, schema: str
) -> None:
    """It was taken out of the crontab, or its workers are down: only its name and its history are there."""
    await db.execute(f"insert into {schema}.known_crontabs values ('old', '2024-01-01 00:00Z', '2024-05-01 00:00Z')")
    [old] = await client.cron.list_items()
    await client.cron.remove("old")

    assert ("old", "static", None, ()) == (old.identifier, old.source, old.task, old.workers)
    assert datetime(2024, 5, 1, tzinfo=UTC) == old.last_run
    assert [] == await client.cron.list_items()


async def test_a_run_adds_the_job_now_with_the_mark(client: Client) -> None:
    """The job has the payload of a slot that is due now, but no slot is used up."""
    await client.cron.add(DAILY)
    added = await client.cron.run("report")
    job = await client.get_job(added.id)
    payload = msgspec.json.decode(job.payload)

    assert ("added", "report", "q", "a") == (added.outcome, job.task, job.queue, payload["to"])
    assert ["to", "_cron"] == [*payload]
    assert False is payload["_cron"]["backfilled"]
    assert abs(datetime.fromisoformat(payload["_cron"]["ts"]) - job.created_at) < timedelta(seconds=5)
    assert None is (await client.cron.get_item("report")).last_run


async def test_a_run_of_a_known_task_has_its_defaults(client: Client) -> None:
    """The defaults were known when the item was stored. Options of the item override them."""
    await client.cron.add(CronItem(known, "@daily", queue="other"))
    job = await client.get_job((await client.cron.run("known")).id)

    assert ("other", 7, ("slow",)) == (job.queue, job.max_attempts, job.flags)


async def test_a_run_of_an_item_of_a_worker_is_as_the_worker_declared_it(
    client: Client, db: asyncpg.Connection, schema: str
) -> None:
    """It has the item's payload and the task's defaults. They are unknown once the worker has ended."""
    item = {"task": "report", "payload": {"x": 1.50}, "job": {"queue": "jq", "priority": 0, "options": {}}}
    await declare(db, schema, nightly=item)
    job = await client.get_job((await client.cron.run("nightly")).id)
    await db.execute(f"delete from {schema}._workers")

    assert ("report", "jq", 1.5) == (job.task, job.queue, msgspec.json.decode(job.payload)["x"])
    with pytest.raises(CronItemNotFound, match="stored, or in the crontab of a live worker"):
        await client.cron.run("nightly")


async def test_a_run_of_a_paused_item_works(client: Client) -> None:
    """A pause stops only the schedule; a manual run is deliberate."""
    await client.cron.add(DAILY)
    await client.cron.pause("report")

    assert "added" == (await client.cron.run("report")).outcome


async def test_a_run_honours_the_overlap(client: Client) -> None:
    """With skip, a waiting job is returned; with replace, it is replaced."""
    await client.cron.add(CronItem("a", "@daily", overlap="skip"))
    await client.cron.add(CronItem("b", "@daily", overlap="replace"))
    first, second = await client.cron.run("a"), await client.cron.run("a")
    third, fourth = await client.cron.run("b"), await client.cron.run("b")

    assert ("added", "deduplicated", first.id) == (first.outcome, second.outcome, second.id)
    assert ("added", "added", third.id) == (third.outcome, fourth.outcome, fourth.existing_id)


async def test_a_run_asks_the_policy_of_the_task(client: Client) -> None:
    """The jobs of its slots have the same policy."""
    strict = task(name="strict", unique=UniquePolicy(keys=["args"], args_keys=["a"]))(lambda a: None)
    await client.cron.add(CronItem(strict, "@daily", payload={"a": 1}))
    first = await client.cron.run("strict")
    with pytest.raises(DuplicateJob) as caught:
        await client.cron.run("strict")

    assert first.id == caught.value.existing_id


async def test_calls_are_part_of_the_callers_transaction(
    client: Client, dsn: str, schema: str, db: asyncpg.Connection
) -> None:
    """An item and the caller's rows are committed together, or not at all."""
    transaction = db.transaction()
    await transaction.start()
    await client.cron.add(DAILY, connection=db)
    await client.cron.change("report", match="@hourly", connection=db)
    await client.cron.pause("report", connection=db)
    await client.cron.run("report", connection=db)
    inside = await client.cron.get_item("report", connection=db)
    await transaction.rollback()

    assert ("@hourly", True) == (inside.expression, inside.paused_at is not None)
    assert ([], []) == (await client.cron.list_items(), (await client.admin.find_jobs(newest=False)).jobs)


async def test_input_that_the_database_refuses_is_invalid_input(client: Client) -> None:
    """Invalid input that only the database detects is no failure of the database."""
    bad: Any = None
    with pytest.raises(InvalidCrontab):
        await client.cron.pause(bad)
