"""A worker process of the chaos suite: `python -m tests.crash.chaos_worker DSN LEDGER`.

Its handlers write down when they run, by the machine's own clock and past every connection; and those that work in
transactions write what they did into the database.
"""

import asyncio
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import asyncpg

from asyncq import Collect, ConstantRetry, Job, JobContext, JobsContext, JobSpec, RetryAfter, StoreUnavailable, task
from asyncq.cli import logs
from asyncq.store import claim
from asyncq.testing import make_worker
from tests.crash.claims import KEYS, QUEUES, RULE_OF
from tests.crash.clocks import true_ns

LEASE_S = 3.0
CONCURRENCY = 8
LONG_S = 1.8 * LEASE_S
LONG_EVERY = 97
NO_SERVER = 75  # the exit code of a process that has found no server at its start
FOR_EVER = {"max_attempts": 32767, "retry": ConstantRetry(0.1)}
# The jobs of the client, in turn, by their number.
PLAIN = ("note", "split", "pay", "swept", "book", "kept", "tip", "note")
KINDS = (*PLAIN, *RULE_OF)
# The clock of the schema is moved forward by less.
KEPT = "300 days"

# The number of items of a job of `split`.
ITEMS = 3

# The first number of the jobs that are claimed in batches; and of those with a limit that are added at once.
CROWDS = 9_000_000
BURSTS = 10_000_000
# The first number of the jobs of trees; and of the last jobs of these.
TREES = 30_000_000
JOINS = 1_000_000_000
BACK_OFF_S = 0.3

JOIN = """
insert into chaos.joined (number, missing)
select $1, count(*) from unnest($2::int[]) as member(number)
where not exists (select from chaos.paid where paid.number = member.number)
"""

# Three jobs for each minute of the schema's clock; missed slots are filled in.
CRONTAB = """
* * * * * slot ?id=first&fill=1d {item: 'first'}
* * * * * slot ?id=second&fill=1d&queue=c {item: 'second'}
*/2 * * * * slot ?id=third&fill=1d {item: 'third'}
"""

_ledger = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND | os.O_CREAT) if __name__ == "__main__" else -1


async def create_tables(db: asyncpg.Connection) -> None:
    """Create the tables in which handlers record their work."""
    await db.execute("""
        create schema chaos;
        create table chaos.paid (kind text, number int);
        create table chaos.slots (item text, ts text)""")


def kind_of(number: int) -> str:
    """The kind of a job."""
    if number >= JOINS:
        return "join"
    return "crowd" if CROWDS <= number < BURSTS else KINDS[number % len(KINDS)]


def key_of(number: int) -> str:
    """The key of a job that has a limit."""
    return KEYS[number // len(KINDS) % len(KEYS)]


def write(word: str, number: int, job: Job | None) -> None:
    """Append a line at once; without a job, as of the first attempt."""
    steady, real = true_ns(time.CLOCK_MONOTONIC), true_ns(time.CLOCK_REALTIME)
    queue, attempt = ("-", 1) if job is None else (job.queue or "-", job.attempts + 1)
    os.write(_ledger, f"{word} {number} {queue} {steady} {real} {attempt}\n".encode())


class NowAndThen(RuntimeError):
    """The failure of a handler."""


def fail_now_and_then() -> None:
    """Fail, of a hundred calls in three."""
    if random.random() < 0.03:
        raise NowAndThen("now and then")


@contextmanager
def begun(number: int, ctx: JobContext | None) -> Iterator[Callable[[str], None]]:
    """A run, from its begin on. Yields a function that records its end, of which the first call counts."""
    job = None if ctx is None else ctx.job
    endings: list[str] = []

    def end(ending: str) -> None:
        if not endings:
            endings.append(ending)
            write(ending, number, job)

    write("begin", number, job)
    try:
        yield end
    finally:
        end("cancelled")


@contextmanager
def ended(end: Callable[[str], None]) -> Iterator[None]:
    """The work of a run; now and then it fails at its end."""
    try:
        yield
        fail_now_and_then()
        end("completed")
    except NowAndThen:
        end("failed")
        raise
    finally:
        end("cancelled")


@contextmanager
def written_down(number: int, ctx: JobContext | None) -> Iterator[None]:
    """A run, from its begin to its end."""
    with begun(number, ctx) as end, ended(end):
        yield


async def work(number: int, ctx: JobContext | None) -> None:
    """Take a moment; some take longer than the lease, and must not continue beyond it unnoticed."""
    is_long = number % LONG_EVERY == 0 and (ctx is None or ctx.job.queue is None)
    await asyncio.sleep(LONG_S if is_long else random.choice((0.0, 0.002, 0.02, 0.1)))


def pays(kind: str) -> str:
    """The statement by which a handler records that its work is done."""
    return f"insert into chaos.paid values ('{kind}', $1)"


@task(**FOR_EVER)
async def note(number: int, ctx: JobContext) -> None:
    """Nothing but the ledger."""
    with written_down(number, ctx):
        await work(number, ctx)


@task(keep=KEPT, **FOR_EVER)
async def kept(number: int, ctx: JobContext) -> int:
    """The same with a result, which is kept."""
    with written_down(number, ctx):
        await work(number, ctx)
    return result_of(number)


@task(keep=KEPT, **FOR_EVER)
async def crowd(number: int) -> int:
    """The same without a context. Its jobs are claimed in batches."""
    with written_down(number, None):
        await work(number, None)
    return result_of(number)


@task(items=True, **FOR_EVER)
async def split(items: list[int], ctx: JobContext) -> list[Exception | None]:
    """Work of which each item is done at least once, and some fail at first."""
    number, ending = items[0] // ITEMS, "cancelled"
    write("begin", number, ctx.job)
    try:
        await work(number, ctx)
        outcomes = [RuntimeError("now and then") if random.random() < 0.1 else None for _ in items]
        for item, outcome in zip(items, outcomes, strict=True):
            if outcome is None:
                await ctx.query(pays("split"), item)
        ending = "failed" if any(outcomes) else "completed"
    finally:
        write(ending, number, ctx.job)
    return [*outcomes]


@task(collect=Collect(max=20, within=0.05), **FOR_EVER)
async def swept(numbers: list[int], jobs: JobsContext) -> list[Exception | None]:
    """Nothing but the ledger, for many jobs in one call."""
    endings = ["cancelled"] * len(numbers)
    for number, job in zip(numbers, jobs.jobs, strict=True):
        write("begin", number, job)
    try:
        await work(numbers[0], None)
        endings = ["failed" if random.random() < 0.03 else "completed" for _ in numbers]
    finally:
        for number, job, ending in zip(numbers, jobs.jobs, endings, strict=True):
            write(ending, number, job)
    return [RuntimeError("now and then") if ending == "failed" else None for ending in endings]


def items_of(number: int) -> list[int]:
    """The items of a job of `split`."""
    return [*range(number * ITEMS, (number + 1) * ITEMS)]


def result_of(number: int) -> int:
    """The result of a job that is kept."""
    return 3 * number


@task(transactional=True, **FOR_EVER)
async def pay(number: int, ctx: JobContext) -> None:
    """Exactly once, by the option."""
    with written_down(number, ctx):
        await ctx.query(pays("pay"), number)
        await work(number, ctx)


@task(**FOR_EVER)
async def book(number: int, ctx: JobContext) -> None:
    """Exactly once, by a transaction of its own that completes the job; either may be last.

    The run begins before the transaction: its process may be paused while it waits for the connection. It ends before
    the commit, after which the next job of its queue starts, and before a rollback, which waits for a dead network.
    """
    with begun(number, ctx) as end:
        async with ctx.connection() as db, db.transaction():
            with ended(end):
                if random.random() < 0.5:
                    await ctx.complete(connection=db)
                await db.execute(pays("book"), number)
                await work(number, ctx)
                await ctx.complete(connection=db)


@task(**FOR_EVER)
async def tip(number: int, ctx: JobContext) -> None:
    """Work at least once: the effect, then the end."""
    with written_down(number, ctx):
        await ctx.query(pays("tip"), number)
        await work(number, ctx)


async def brief(number: int, key: str, ctx: JobContext) -> None:
    """Work that is limited by its task and key."""
    with written_down(number, ctx):
        await asyncio.sleep(random.choice((0.0, 0.01, 0.05, 0.2)))


async def refused(number: int, key: str, ctx: JobContext) -> None:
    """The same with a service that refuses some calls: the job goes on or is tried again, and others wait."""
    with written_down(number, ctx):
        chance = random.random()
        if chance < 0.1:
            raise RetryAfter(BACK_OFF_S, partition=True)
        if chance < 0.2:
            (now,) = await ctx.query("select asyncq.clock()")
            await ctx.back_off(BACK_OFF_S)
            of_group = f"key refused {key}" if ctx.job.queue is None else f"queue {ctx.job.queue}"
            until = now[0] + timedelta(seconds=BACK_OFF_S)
            await ctx.query("insert into chaos.backed_off (of_group, until) values ($1, $2)", of_group, until)
        await asyncio.sleep(random.choice((0.0, 0.02, 0.1)))


LIMITED = {
    name: task(name=name, **FOR_EVER, **rule.options)(refused if name == "refused" else brief)
    for name, rule in RULE_OF.items()
}


@task(transactional=True, keep=KEPT, **FOR_EVER)
async def join(number: int, members: list[int], ctx: JobContext) -> None:
    """The last job of a tree, exactly once: it looks for the effects of all jobs for which it has waited."""
    with written_down(number, ctx):
        await ctx.query(JOIN, number, members)
        await work(number, ctx)


def spec_of(number: int) -> JobSpec:
    """The job of a number."""
    kind = kind_of(number)
    if kind in LIMITED:
        return LIMITED[kind].job(number, key_of(number))
    return globals()[kind].job(items_of(number) if kind == "split" else number)


@task(transactional=True, name="slot", **FOR_EVER)
async def slot(item: str, ctx: JobContext) -> None:
    """A slot of a recurring item, exactly once too."""
    await ctx.query("insert into chaos.slots values ($1, $2::jsonb -> '_cron' ->> 'ts')", item, ctx.job.payload)


def main() -> None:
    """Run the worker."""
    logs.configure("info", "text")
    claim.BATCH_FROM = 2
    worker = make_worker(
        sys.argv[1],
        [note, kept, crowd, split, swept, pay, book, tip, join, slot, *LIMITED.values(), *QUEUES],
        lease=LEASE_S,
        grace=1,
        concurrency=CONCURRENCY,
        pool_size=CONCURRENCY,
        crontab=CRONTAB,
    )
    try:
        asyncio.run(worker.run())
    except StoreUnavailable as error:
        print(error, file=sys.stderr)
        sys.exit(NO_SERVER)


if __name__ == "__main__":
    main()
