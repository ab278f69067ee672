"""The jobs of the demo: four tasks, written as in an application, with its tables in tables.py.

A job can run twice: its worker may die after the write and before the job is settled. So every row has a key, and a
second run of the same job changes nothing.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime

import anyio.to_thread

from asyncq import ConstantRetry, JobContext, task
from examples.demo.files import STDLIB, count, package_of

STUMBLES = 2
RETRY_S = 0.25

AT_ONCE = -30  # priorities: lower first, 0 is that of most jobs
TALLY = -20
URGENT_FILE = -10

KEEP_COUNT = """
with counted as (
  insert into files (file, package, lines, words, imports, problem, worker, started_at, ended_at)
  values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
  on conflict (file) do nothing
  returning package
), measured as (
  insert into functions (file, line, name, lines)
  select $1, found.line, found.name, found.lines
  from unnest($10::int[], $11::text[], $12::int[]) as found (line, name, lines)
  where exists (select from counted)
)
update packages
set files_left = files_left - 1
from counted
where packages.name = counted.package
returning files_left
"""

KEEP_TALLY = """
insert into tallies (package, files, lines, words, imports, worker, started_at, ended_at)
select package, count(*), sum(lines), sum(words), sum(imports), $2, $3, clock_timestamp()
from files
where package = $1
group by package
on conflict (package) do nothing
"""


@task
async def count_file(file: str, ctx: JobContext) -> None:
    """Count one file; the last one of a package adds the job that tallies it, in the same transaction."""
    started_at = datetime.now(UTC)
    counted = await anyio.to_thread.run_sync(count, STDLIB / file)
    package, functions = package_of(file), counted.functions
    async with ctx.connection() as connection, connection.transaction():
        files_left = await connection.fetchval(
            KEEP_COUNT,
            file,
            package,
            counted.lines,
            counted.words,
            counted.imports,
            counted.problem,
            os.getpid(),
            started_at,
            datetime.now(UTC),
            [function.line for function in functions],
            [function.name for function in functions],
            [function.lines for function in functions],
        )
        if files_left == 0:
            await ctx.add_job(tally_package, package, connection=connection)


@task(queue="tally", priority=TALLY)
async def tally_package(package: str, ctx: JobContext) -> None:
    """Add up one package, in a named queue: its jobs run one after the other, on any worker."""
    async with ctx.connection() as connection:
        started_at = await connection.fetchval("select clock_timestamp()")
        await connection.execute(KEEP_TALLY, package, os.getpid(), started_at)


@task(priority=AT_ONCE, max_attempts=STUMBLES + 1, retry=ConstantRetry(RETRY_S))
async def stumble(ctx: JobContext) -> None:
    """Fail twice on purpose, then succeed."""
    note = "insert into tries (number, at) values ($1, clock_timestamp()) on conflict (number) do nothing"
    await ctx.query(note, ctx.attempt)
    if ctx.attempt <= STUMBLES:
        raise ConnectionError(f"attempt {ctx.attempt} fails on purpose")


@task(priority=AT_ONCE)
async def keep_appointment(ctx: JobContext) -> None:
    """Record the time at which it runs, and the time at which it was due."""
    note = "insert into appointments (due, kept) values ($1, clock_timestamp()) on conflict (due) do nothing"
    await ctx.query(note, ctx.job.run_at)


TASKS = (count_file, tally_package, stumble, keep_appointment)
