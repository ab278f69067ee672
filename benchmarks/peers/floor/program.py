"""Forty lines of asyncpg: claim a batch, call the handler for each, delete the batch."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import asyncpg

from benchmarks.peers.role import Adder, Note, Program, Wish, run

SCHEMA = """
create table floor_jobs (
  id bigint generated always as identity primary key, payload jsonb not null, run_at timestamptz not null default now(),
  attempts int not null default 0, locked_at timestamptz, locked_by int);
create index floor_jobs_ready on floor_jobs (run_at, id) where locked_at is null;
create function floor_tell() returns trigger language plpgsql as $$ begin notify floor_jobs; return null; end $$;
create trigger floor_tell after insert on floor_jobs for each statement execute function floor_tell();
"""
CLAIM = """
update floor_jobs set locked_at = now(), locked_by = 1, attempts = attempts + 1
where id = any(array(
  select id from floor_jobs where locked_at is null and run_at <= now() order by run_at, id limit $1
  for update skip locked))
returning id, payload
"""
ADD = "insert into floor_jobs (payload) values ($1)"
ADD_MANY = "insert into floor_jobs (payload, run_at) select unnest($1::jsonb[]), now() + $2"


async def install(dsn: str, wish: Wish) -> None:
    """Make the table."""
    connection = await asyncpg.connect(dsn)
    await connection.execute(SCHEMA)
    await connection.close()


@asynccontextmanager
async def adder(dsn: str, wish: Wish) -> AsyncGenerator[Adder]:
    """A pool, as a client would have it."""
    async with asyncpg.create_pool(dsn, min_size=1, max_size=10) as pool:

        async def one(number: int) -> None:
            await pool.execute(ADD, json.dumps({"id": number}))

        async def many(numbers: Sequence[int], delay_s: float) -> None:
            payloads = [json.dumps({"id": number}) for number in numbers]
            await pool.execute(ADD_MANY, payloads, timedelta(seconds=delay_s))

        yield Adder(one, many)


async def work(dsn: str, wish: Wish, note: Note) -> None:
    """Loops that fetch, run and delete, woken by notifications."""
    wake = asyncio.Event()
    listener = await asyncpg.connect(dsn)
    await listener.add_listener("floor_jobs", lambda *_: wake.set())  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    lives_until = datetime.now(UTC) + timedelta(hours=1)
    async with asyncio.TaskGroup() as group:
        for _ in range(wish["loops"]):
            group.create_task(_loop(dsn, wish["batch"], wake, note, lives_until))


async def _loop(dsn: str, batch: int, wake: asyncio.Event, note: Note, until: datetime) -> None:
    connection = await asyncpg.connect(dsn)

    async def handle(number: int) -> None:
        note(number)

    while datetime.now(UTC) < until:
        wake.clear()
        rows = await connection.fetch(CLAIM, batch)
        for row in rows:
            await handle(json.loads(row[1])["id"])
        if rows:
            await connection.execute("delete from floor_jobs where id = any($1)", [row[0] for row in rows])
        else:
            await wake.wait()


if __name__ == "__main__":
    run(Program(install, adder, work))
