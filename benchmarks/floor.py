"""The floor of the latency: the same three steps (store and notify, receive, claim) in minimal SQL, without a queue."""

from __future__ import annotations

import asyncio
import time

import asyncpg

TABLE = """
create table if not exists bench_floor (
  id bigint generated always as identity primary key, payload json not null, locked_by int)
"""
ADD = """
with added as (insert into bench_floor (payload) values ('{}') returning id)
select pg_notify('bench_floor', '') from added
"""
CLAIM = """
update bench_floor set locked_by = 1
where id = any(array(select id from bench_floor where locked_by is null order by id limit 10 for update skip locked))
returning id, payload
"""


async def latency(dsn: str, jobs: int, pause_s: float) -> list[float]:
    """Store, receive and claim rows one by one, in one process.

    Args:
        dsn: The server.
        jobs: How many.
        pause_s: The pause between two.

    Returns:
        Milliseconds from the add to the claimed row, sorted.
    """
    adder, listener, claimer = [await asyncpg.connect(dsn) for _ in range(3)]
    heard = asyncio.Event()
    delays: list[float] = []
    try:
        await adder.execute(TABLE)
        await listener.add_listener("bench_floor", lambda *_: heard.set())  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
        for _ in range(jobs):
            began = time.perf_counter()
            await adder.execute(ADD)
            await heard.wait()
            heard.clear()
            if not await claimer.fetch(CLAIM):
                raise SystemExit("floor: a row was not there")
            delays.append((time.perf_counter() - began) * 1000)
            await adder.execute("delete from bench_floor")
            await asyncio.sleep(pause_s)
        await adder.execute("drop table bench_floor")
    finally:
        for connection in (adder, listener, claimer):
            await connection.close()
    return sorted(delays)
