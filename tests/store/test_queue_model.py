"""Many concurrent fetches, ends, rescues and adds over a few queues without the second fence: the lock alone must hold.

Two kinds of workers know different tasks, so that they see different first jobs of one queue: there two fetches
conflict.
"""

import itertools
import random
from typing import Any

import anyio
import pytest

from tests.support.jobs import add, change, claim_next, complete, fetch, stray_queues
from tests.support.session import Session, session

QUEUES = ("a", "b", "c", None)
TASKS = ("x", "y")
ADDERS, WORKERS = 2, 4
THOROUGH = True
TWICE = """
select queue from asyncq._jobs where locked_by is not null and queue is not null group by queue having count(*) > 1
"""


class Players:
    """The concurrent actions, each with a session of its own."""

    def __init__(self, seed: int, rounds: int) -> None:
        self.looks = 0
        self._seed = seed
        self._rounds = rounds
        self._adding = ADDERS  # from the start: their connections open in any order
        self._working = WORKERS
        self._tokens = itertools.count(1)

    async def add(self, sql: Session, player: int) -> None:
        """Add jobs of random queues, tasks and priorities."""
        rng = random.Random(f"{self._seed} {player}")
        for _ in range(self._rounds):
            await add(sql, rng.choice(TASKS), queue=rng.choice(QUEUES), priority=rng.randint(-2, 2), max_attempts=3)
        self._adding -= 1

    async def work(self, sql: Session, player: int) -> None:
        """Fetch and end jobs until none is left: most succeed, some fail, are returned, or are lost."""
        rng, tasks = random.Random(f"{self._seed} {player}"), [TASKS[player % 2]]
        while True:
            was_last = not self._adding
            claims = await fetch(sql, rng.randint(1, 4), worker=player, token=next(self._tokens), tasks=tasks)
            rng.shuffle(claims)
            for claim in claims:
                way = rng.choice(("complete", "take", "take", "fail", "return", "abandon"))
                if way == "complete":
                    await complete(sql, [claim], worker=player)
                elif way == "take":
                    token = next(self._tokens)
                    claims += (await claim_next(sql, [claim], worker=player, token=token, tasks=tasks))[1]
                elif way != "abandon":
                    await change(sql, [claim], worker=player, attempts=int(way == "fail"), delay_s=0.0)
            if was_last and not claims and not await sql.run("rescue_jobs", THOROUGH, None):
                break
        self._working -= 1

    async def rescue(self, sql: Session, _player: int) -> None:
        """No worker of this test has a row: now and then the claims of all are rescued."""
        while self._adding or self._working:
            await sql.run("rescue_jobs", THOROUGH, None)
            await anyio.sleep(0.01)

    async def watch(self, sql: Session, _player: int) -> None:
        """Check the laws that hold at any moment."""
        while self._adding or self._working:
            assert [] == await stray_queues(sql)
            assert [] == await sql.values(TWICE)
            self.looks += 1
            await anyio.sleep(0.001)


@pytest.mark.parametrize(
    ("seed", "rounds"), [(1, 80), *(pytest.param(seed, 2000, marks=pytest.mark.slow) for seed in (2, 3))]
)
@pytest.mark.timeout(120)
async def test_a_queue_counts_the_one_running_job_or_none(dsn: str, sql: Session, seed: int, rounds: int) -> None:
    """This holds at every moment of concurrent actions."""
    await sql.execute("drop index asyncq.jobs_one_running_per_queue")
    players = Players(seed, rounds)

    async def play(part: Any, player: int) -> None:
        async with session(dsn, sql.schema) as mine:
            await part(mine, player)

    async with anyio.create_task_group() as group:
        parts = [players.add] * ADDERS + [players.work] * WORKERS + [players.rescue, players.watch]
        for player, part in enumerate(parts, 1):
            group.start_soon(play, part, player)
    while await sql.run("rescue_jobs", THOROUGH, None):
        pass
    while claims := await fetch(sql):
        await complete(sql, claims)

    assert 0 == await sql.value(
        "select count(*) from asyncq._jobs where locked_by is not null or attempts < max_attempts"
    )
    assert [] == await sql.values("select law from asyncq.violations()")
    assert players.looks > 10
