"""The types that `add_job` and `add_jobs` take and return, on the client and in a handler.

Lines with `# error:` must be refused.
"""

# ruff: noqa: D103

from datetime import UTC, datetime, timedelta
from typing import Any, TypedDict, assert_type

import asyncpg
import msgspec
import pydantic

from asyncq import (
    Added,
    Client,
    Handle,
    Job,
    JobContext,
    JobKeyMode,
    JobSpec,
    Task,
    UniquePolicy,
    Worker,
    add_job,
    task,
)


class Email(msgspec.Struct):
    to: str
    subject: str = ""


class Row(TypedDict):
    id: int


class Order(pydantic.BaseModel):
    item: str
    count: pydantic.PositiveInt = 1


class LoudEmail(Email):
    volume: int = 11


@task
async def send_email(email: Email, ctx: JobContext) -> None: ...


@task(queue="mail")
def send_email_in_a_thread(email: Email) -> None: ...


@task
async def rollup(day: str, dry_run: bool = False) -> None: ...


@task
async def tidy(ctx: JobContext) -> None: ...


@task
async def resize(sizes: list[int], ctx: JobContext) -> None: ...


@task
async def import_row(row: Row) -> None: ...


@task
async def anything(payload: Any, ctx: JobContext) -> None: ...


@task
async def confirm(order: Order) -> None: ...


async def models(client: Client, ctx: JobContext) -> None:
    await client.add_job(confirm, Order(item="tea"))
    await ctx.add_job(confirm, Order(item="tea", count=2))
    await client.add_job(confirm, {"item": "tea"})  # error: a dict is no Order
    await client.add_job(confirm, Email("a@b.c"))  # error: an Email is no Order
    await client.add_jobs([confirm.job(Order(item="tea"))])
    confirm.job(order=5)  # error: an int is no Order


async def payloads(client: Client) -> None:
    await client.add_job(send_email, Email("a@b.c", "hi"))
    await client.add_job(send_email, LoudEmail("a@b.c"))
    await client.add_job(send_email, "a@b.c")  # error: a str is no Email
    await client.add_job(send_email, {"to": "a@b.c"})  # error: a dict is no Email
    await client.add_job(send_email, None)  # error: None is no Email
    await client.add_job(send_email)  # error: no payload
    await client.add_job(send_email, Email("a@b.c"), Email("a@b.c"))  # error: one payload too many
    await client.add_job(send_email_in_a_thread, Email("a@b.c"))
    await client.add_job(send_email_in_a_thread, 5)  # error: an int is no Email
    await client.add_job(tidy)
    await client.add_job(tidy, Email("a@b.c"))  # error: it takes no payload
    await client.add_job(resize, [1, 2])
    await client.add_job(resize, ["1"])  # error: a str is no int
    await client.add_job(anything, {"a": 1})
    await client.add_job(rollup, "2026-11-20")
    await client.add_job(rollup, 5)  # error: an int is no str
    await client.add_job(rollup)  # error: day is missing
    await client.add_job(rollup, day="2026-11-20")  # error: fields go into rollup.job(...)


async def names(client: Client) -> None:
    await client.add_job("send_email")
    await client.add_job("send_email", {"to": "a@b.c", "subject": "hi"})
    await client.add_job("send_email", Email("a@b.c"), priority=5)
    await client.add_job(b"send_email")  # error: a name is a str
    await client.add_job(5, {})  # error: a name is a str


async def specs(client: Client) -> None:
    await client.add_job(send_email.job(Email("a@b.c")))
    await client.add_job(rollup.job(day="2026-11-20"), priority=5)
    await client.add_job(rollup.job(day="2026-11-20").with_options(priority=5))
    await client.add_job(rollup.job(day="2026-11-20"), "payload")  # error: a spec has its payload
    await client.add_jobs([send_email.job(Email("a@b.c")), rollup.job(day="2026-11-20")])
    await client.add_jobs([])
    await client.add_jobs([send_email])  # error: a task is no spec
    await client.add_jobs(rollup.job(day="2026-11-20"))  # error: a spec is no list


async def options(client: Client) -> None:
    email = Email("a@b.c")
    await client.add_job(
        send_email,
        email,
        queue="mail",
        run_at=datetime.now(UTC),
        max_attempts=3,
        priority=-1,
        flags=["slow"],
        job_key="k",
        job_key_mode="replace",
        meta={"trace": "1"},
    )
    await client.add_job(send_email, email, unique=UniquePolicy(keys=["args"]), rerun=True, idempotency_key="k")
    await client.add_job(send_email, email, unique={"keys": ["args"]}, force=True)
    await client.add_job(send_email, email, singleton=True, subject="s")
    await client.add_job(send_email, email, unique=["args"])  # error: a policy is an object
    await client.add_job(send_email, email, singleton="yes")  # error: yes or no is a bool
    await client.add_job(send_email, email, subject=5)  # error: a subject is a str
    await client.add_job(send_email, email, force="yes")  # error: yes or no is a bool
    await client.add_job(send_email, email, rerun=1.5)  # error: yes or no is a bool
    await client.add_job(send_email, email, idempotency_key=5)  # error: a key is a str
    await client.add_job(send_email, email, job_key_mode=JobKeyMode.REPLACE, queue=None)
    await client.add_job(send_email, email, priority="high")  # error: a priority is an int
    await client.add_job(send_email, email, max_attempts=1.5)  # error: attempts are an int
    await client.add_job(send_email, email, run_at="tomorrow")  # error: a time is a datetime
    await client.add_job(send_email, email, queue=5)  # error: a queue is a str
    await client.add_job(send_email, email, flags=5)  # error: flags are a list of str
    await client.add_job(send_email, email, meta="x")  # error: meta is a dict
    await client.add_job(send_email, email, prioriti=5)  # error: no such option
    await client.add_job("send_email", {}, priority="high")  # error: a priority is an int
    await client.add_job("send_email", {}, prioriti=5)  # error: no such option
    await client.add_job(tidy, priority="high")  # error: a priority is an int
    await client.add_job(tidy, queue_name="mail")  # error: that is the name in SQL
    await client.add_job(rollup.job("x"), priority="high")  # error: a priority is an int
    rollup.job("x").with_options(priority=5, queue="q")
    rollup.job("x").with_options(unique=UniquePolicy(), force=True)
    rollup.job("x").with_options(unique=5)  # error: a policy is an object
    rollup.job("x").with_options(priority="high")  # error: a priority is an int
    rollup.job("x").with_options(prioriti=5)  # error: no such option


async def connections(
    client: Client, db: "asyncpg.Connection[asyncpg.Record]", pool: "asyncpg.Pool[asyncpg.Record]"
) -> None:
    await client.add_job(send_email, Email("a@b.c"), connection=db)
    await client.add_job(tidy, connection=db)
    await client.add_job("tidy", connection=db)
    await client.add_jobs([tidy.job()], connection=db)
    async with pool.acquire() as borrowed:
        await client.add_job(tidy, connection=borrowed)
        await client.add_jobs([tidy.job()], connection=borrowed)
    await client.add_job(tidy, connection=None)
    await client.add_job(tidy, connection=pool)  # error: acquire a connection first
    await client.add_job(tidy, connection="postgresql:///app")  # error: a DSN is no connection
    await client.add_jobs([tidy.job()], connection=pool)  # error: acquire a connection first


async def in_a_handler(ctx: JobContext) -> None:
    await ctx.add_job(send_email, Email("a@b.c"))
    await ctx.add_job(send_email, "a@b.c")  # error: a str is no Email
    await ctx.add_job(send_email)  # error: no payload
    await ctx.add_job(tidy)
    await ctx.add_job(tidy, Email("a@b.c"))  # error: it takes no payload
    await ctx.add_job("send_email", {"to": "a@b.c"}, priority=5)
    await ctx.add_job("send_email", {}, prioriti=5)  # error: no such option
    await ctx.add_job(rollup.job(day="2026-11-20"), priority=5)
    await ctx.add_job(rollup.job(day="2026-11-20"), priority="high")  # error: a priority is an int
    await ctx.add_jobs([rollup.job(day="2026-11-20")])
    await ctx.add_jobs([rollup])  # error: a task is no spec
    async with ctx.connection() as db, db.transaction():
        await ctx.add_job(tidy, connection=db)
        await ctx.add_jobs([tidy.job()], connection=db)
        await ctx.add_job(tidy, connection=5)  # error: an int is no connection
    assert_type(await ctx.add_job(tidy), Added)
    assert_type(await ctx.add_jobs([tidy.job()]), list[Added])
    assert_type(await ctx.query("select 1"), list[asyncpg.Record])
    assert_type(ctx.attempt, int)
    assert_type(ctx.job, Job)


async def answers(client: Client) -> None:
    assert_type(await client.add_job(send_email, Email("a@b.c")), Handle[None])
    assert_type(await client.add_job(tidy), Handle[None])
    assert_type(await client.add_job("tidy"), Handle[Any])
    assert_type(await client.add_job(tidy.job()), Handle[None])
    assert_type(await client.add_jobs([tidy.job()]), list[Added])
    assert_type(await client.get_job(1), Job)
    assert_type(rollup.job("x").with_options(priority=5), JobSpec[None])
    assert_type(await add_job("postgresql:///app", "tidy"), Added)
    async with Client("postgresql:///app", tasks=[send_email, tidy]) as opened:
        assert_type(opened, Client)
    Client("postgresql:///app", idempotency_window=timedelta(hours=1))
    Client("postgresql:///app", idempotency_window=3600)  # error: a number has no unit


async def once() -> None:
    await add_job("postgresql:///app", "tidy", {"a": 1}, priority=5)
    await add_job("postgresql:///app", "tidy", prioriti=5)  # error: no such option
    await add_job("postgresql:///app", "tidy", priority="high")  # error: a priority is an int


TASKS: list[Task[...]] = [send_email, rollup, tidy, send_email_in_a_thread]


def named_lists() -> None:
    Worker("postgresql:///app", TASKS)
    Client("postgresql:///app", tasks=TASKS)
    Client("postgresql:///app", tasks=(send_email, rollup))


async def typed_dicts(client: Client) -> None:
    row: Row = {"id": 1}
    await client.add_job(import_row, row)
    await client.add_job(import_row.job({"id": 1}))
    await client.add_job(import_row.job({"id": "1"}))  # error: a str is no int


def workers() -> None:
    Worker("postgresql:///app", [send_email, rollup, tidy, send_email_in_a_thread])
    Worker("postgresql:///app", tasks=[anything], concurrency=20)
    Worker("postgresql:///app", tasks=tidy)  # error: a task is no list
    Worker("postgresql:///app", tasks=[len])  # error: a function without @task
    Worker("postgresql:///app", tasks=[tidy], concurrency="20")  # error: concurrency is an int


async def wait_for_others(client: Client, ctx: JobContext) -> None:
    """The option after takes ids and what an add returned."""
    first = await client.add_job(confirm, Order(item="tea"))
    (second,) = await client.add_jobs([confirm.job(Order(item="tea"))])
    third = await ctx.add_job(confirm, Order(item="tea"), after=[first, second, 17], if_failed="run")
    await client.add_job(confirm, Order(item="tea"), after=(one for one in (third, first)))
    await client.add_job(confirm, Order(item="tea"), after=["17"])  # error: a str is no id
    await client.add_job(confirm, Order(item="tea"), after=[1], if_failed="stop")  # error: no such word
