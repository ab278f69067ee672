"""Odd recurring items: each costs its own slots at most, and never the worker or other items."""

import asyncio
import time
from typing import Any

import asyncpg
import msgspec
import pytest

from asyncq import Client, CronItem, TimeDigest, task
from asyncq.domain.events import CronAdded, CronItemFailed, CronItemRefused, MaintenanceFailed
from asyncq.engine.cron import scheduler, slot_adder
from asyncq.engine.cron.slot_adder import SlotAdder
from asyncq.store.database import ReconnectingConnection
from tests.support.stage import MINUTE, Stage
from tests.support.waiting import LIMIT_S, wait_until

EACH_MINUTE = "* * * * *"


class Mute(Exception):
    """Its text cannot be had."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


class Text(str):
    """A text of some framework's."""

    __slots__ = ()


class Number(int):
    """A number of some framework's."""


class Refusing(msgspec.Struct):
    """A payload that is refused with a text that PostgreSQL cannot store."""

    who: str

    def __post_init__(self) -> None:
        if self.who == "mute":
            raise Mute
        raise ValueError("\0 is wrong")


@task
async def ring() -> None:
    """The least job."""


@task
async def refuse(payload: Refusing) -> None:
    """Never runs."""


async def test_an_item_whose_match_fails_without_a_message_fails_alone(stage: Stage) -> None:
    """Its worker reports as much as it can."""

    def match(_: TimeDigest) -> bool:
        raise Mute

    async with stage.worker(CronItem("odd", match), f"{EACH_MINUTE} good").start():
        await stage.clock.move(MINUTE)
        jobs = await stage.wait_for(1)
        await stage.seen.wait_for(CronItemFailed)

    assert ["good 12:01"] == jobs
    assert "Mute: <its __str__ raised RuntimeError>" == stage.seen.of(CronItemFailed)[0].error


@pytest.mark.parametrize(
    "options",
    [
        {"queue": Text("line")},
        {"job_key": Text("key")},
        {"flags": [Text("flag")]},
        {"task": Text("odd")},
        {"match": Text(EACH_MINUTE)},
        {"priority": Number(4)},
        {"max_attempts": Number(4)},
    ],
    ids=lambda options: next(iter(options)),
)
async def test_options_of_classes_below_text_and_number_are_texts_and_numbers(
    stage: Stage, options: dict[str, Any]
) -> None:
    """Frameworks mark texts as safe, or as names, by such classes."""
    item = CronItem(**{"task": "odd", "match": EACH_MINUTE, **options})
    async with stage.worker(item, f"{EACH_MINUTE} good").start():
        await stage.clock.move(MINUTE)
        jobs = await stage.wait_for(2)

    assert ["good 12:01", "odd 12:01"] == sorted(jobs)


@pytest.mark.parametrize("who", ["mute", "null"])
async def test_an_item_whose_payload_fails_with_odd_text_is_reported_and_loses_no_other_item(
    stage: Stage, who: str
) -> None:
    """The status of all items is written by one statement."""
    problems = (
        f"select count(*) from {stage.schema}.list_cron_items() where problem is not null or next_run is not null"
    )
    async with stage.worker(tasks=[refuse, ring]).start():
        await stage.db.execute(
            f"select {stage.schema}.add_cron_item('refuse', 'refuse', '{EACH_MINUTE}', $1)", f'{{"who": "{who}"}}'
        )
        await stage.db.execute(f"select {stage.schema}.add_cron_item('ring', 'ring', '{EACH_MINUTE}')")
        await stage.seen.wait_for(CronItemRefused)

        async def are_stored() -> bool:
            return await stage.db.fetchval(problems) == 2

        await wait_until(are_stored, description="both to be stored")
        await stage.clock.move(MINUTE)
        jobs = await stage.wait_for(1)

    assert ["ring 12:01"] == jobs
    assert [] == stage.seen.of(MaintenanceFailed)


async def test_an_item_that_is_removed_and_stored_again_before_it_has_begun_begins(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script may do so while a worker starts: the definition is the same, so it looks unchanged."""
    item, real, done = CronItem("ring", EACH_MINUTE, identifier="bell"), SlotAdder.register, list[bool]()
    async with Client(stage.dsn, schema=stage.schema) as client:
        await client.cron.add(item)

        async def register(adder: SlotAdder, own: Any, stored: Any) -> Any:
            if done or "bell" not in stored:
                return await real(adder, own, stored)
            done.append(True)
            await client.cron.remove("bell")
            try:
                return await real(adder, own, stored)
            finally:
                await client.cron.add(item)

        monkeypatch.setattr(SlotAdder, "register", register)
        async with stage.worker(tasks=[ring]).start():
            for _ in range(3):
                await stage.clock.move(MINUTE)
                await asyncio.sleep(0.1)
            await stage.seen.wait_for(CronAdded)

    assert done


async def test_items_whose_jobs_are_locked_delay_the_others_by_two_tries_in_all(
    stage: Stage, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one try for each, the sum would exceed the worker's deadline."""
    held = 20
    monkeypatch.setattr(slot_adder, "LOCK_TIMEOUT_S", 0.5)
    monkeypatch.setattr(slot_adder, "DEADLINE_S", 5.0)
    other = await asyncpg.connect(dsn)
    try:
        for number in range(held):
            added = f"select {stage.schema}.add_job('t{number}', job_key => 'k{number}', run_at => '2030-01-01')"
            await stage.db.execute(added)
        async with other.transaction():
            await other.execute(f"select from {stage.schema}._jobs for update")
            items = [f"{EACH_MINUTE} t{number} ?jobKey=k{number}" for number in range(held)]
            async with asyncio.timeout(2 * LIMIT_S), stage.worker(*items, f"{EACH_MINUTE} free").start():
                await stage.clock.move(MINUTE)
                await stage.seen.wait_for(CronAdded)
                await stage.seen.wait_for(CronItemFailed, held)
    finally:
        await other.close()

    assert ["free"] == list(stage.seen.of(CronAdded)[0].items)


async def test_an_answer_that_lies_unread_while_a_handler_blocks_the_loop_delays_no_slot(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server's time goes on while the answer waits to be read."""
    real = scheduler.look

    async def look(line: ReconnectingConnection) -> Any:
        found = await real(line)
        time.sleep(0.5)  # noqa: ASYNC251 - that is the point
        return found

    async with stage.worker(f"{EACH_MINUTE} good").start() as worker:
        running = worker._running
        assert running is not None
        monkeypatch.setattr(scheduler, "look", look)
        wait_s = await running.parts.cron.round()

    # The clock shows half past the minute.
    assert wait_s <= 29.5
