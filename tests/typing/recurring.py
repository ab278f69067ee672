"""The types of recurring jobs; `# error:` lines must be refused."""

# ruff: noqa: D103

from datetime import datetime, timedelta
from typing import assert_type

from asyncq import (
    Added,
    Client,
    CronItem,
    CronStatus,
    TimeDigest,
    daily,
    every,
    next_run,
    parse_cron_items,
    parse_crontab,
    task,
    weekly,
)
from asyncq.domain.cron.text import items_of_task


@task
async def rollup(day: str = "today") -> None: ...


def at_noon(minute: TimeDigest) -> bool:
    return minute.hour == 12 and minute.minute == 0


@task(cron="0 8 * * *")
async def every_morning(day: str = "today") -> None: ...


@task(cron=["0 8 * * *", at_noon])
async def twice(day: str = "today") -> None: ...


def wrong(minute: int) -> bool:
    return minute == 0


def items(now: datetime) -> None:
    assert_type(parse_crontab("* * * * * rollup"), tuple[CronItem, ...])
    item = CronItem(rollup, daily(hour=8), tz="Europe/Berlin", fill=timedelta(days=1), payload={"day": "x"})
    assert_type(next_run(item, now), datetime | None)
    parse_cron_items([item, CronItem("rollup", at_noon, identifier="noon")])
    items_of_task(rollup, "0 8 * * *")
    items_of_task(rollup, ["0 8 * * *", at_noon])
    items_of_task(rollup, wrong)  # error: it does not take a TimeDigest
    task(cron=wrong)  # error: it does not take a TimeDigest
    task(cron=5)  # error: neither an expression nor a function
    CronItem("rollup", wrong)  # error: it does not take a TimeDigest
    CronItem(at_noon, "* * * * *")  # error: a plain function is no task
    CronItem("rollup", "* * * * *", dialect="quartz")  # error: no such dialect
    CronItem("rollup", "* * * * *", "rollup_2")  # error: the rest is given by name
    CronItem("rollup", "* * * * *", payload=[1])  # error: a payload is an object
    weekly("mon")  # error: the names of days are whole
    every(minutes="5")  # error: a number


async def stored(client: Client) -> None:
    item = CronItem("rollup", "0 8 * * *", overlap="skip")
    assert_type(await client.cron.add(item), CronStatus)
    assert_type(await client.cron.change("rollup", match=daily(hour=9), fill=timedelta(days=1), tz=None), CronStatus)
    assert_type(await client.cron.list_items(), list[CronStatus])
    assert_type(await client.cron.run("rollup"), Added)
    await client.cron.add("0 8 * * * rollup")  # error: an item, not a line
    await client.cron.change("rollup", identifier="x")  # error: the name stays
    await client.cron.change("rollup", match=at_noon)  # error: a function cannot be stored
    await client.cron.change("rollup", overlap="queue")  # error: no such overlap
    CronItem("rollup", "* * * * *", overlap="queue")  # error: no such overlap
