"""Thousands of unique adds of all kinds beside workers, compared with a model.

Each request has a number, which is its payload. Each answer has the job of the request. So the test detects lost
requests (no run of the job, though nobody replaced it) and doubled ones (two jobs with one number).
"""

import collections
import itertools
import json
import random
from typing import Any

import anyio
import asyncpg
import pytest

from tests.support.jobs import are_left, complete, fetch, settle_rest
from tests.support.keyed import Done
from tests.support.session import Session, session
from tests.support.unique import ask

TASKS = ("a", "b", "c")
LEVELS = ("read_committed", "read_committed", "repeatable_read", "serializable")
ADDERS = 4
THOROUGH = True
OUTCOMES = {"added", "updated", "deduplicated", "rejected"}
WAYS: list[dict[str, Any]] = [
    {"singleton": True},
    {"singleton": True},
    {"singleton": True, "rerun": True},
    {"singleton": True, "force": True},
    {"unique": {"on_conflict": "reject"}},
    {"unique": {"on_conflict": "replace"}},
]
DOUBLED = """
select task_id, array_agg(id) from asyncq._jobs as job
where cancelled_at is null and not asyncq._is_discarded(job) and meta is null
group by task_id having count(*) > 1
"""

# A replacement that cancels several jobs names the newest: each one that was cancelled is to be known.
KEEP = """
create function asyncq.keep() returns trigger language plpgsql as $$
begin
  new.keep_until := coalesce(new.keep_until, 'infinity');
  new.keep_states := coalesce(new.keep_states, '{cancelled}');
  return new;
end $$;
create trigger keep before insert on asyncq._jobs for each row execute function asyncq.keep()
"""


class Ledger:
    """All answers and runs.

    Attributes:
        jobs: Number of a request -> the jobs that were added for it.
        dropped: Job -> the numbers of later requests that returned this job.
        reruns: Job -> the numbers of the requests to rerun it.
        replaced: The jobs that were replaced.
        runs: Job -> the revisions and numbers that its runs saw; each rerun is a revision.
        outcomes: How often each was the answer.
    """

    def __init__(self) -> None:
        self.jobs: dict[int, list[int]] = collections.defaultdict(list)
        self.dropped: dict[int, list[int]] = collections.defaultdict(list)
        self.reruns: dict[int, set[int]] = collections.defaultdict(set)
        self.replaced: collections.Counter[int] = collections.Counter()
        self.runs: dict[int, list[tuple[int, int]]] = collections.defaultdict(list)
        self.outcomes: collections.Counter[str] = collections.Counter()

    def note(self, number: int, done: Done, way: dict[str, Any]) -> None:
        """Note the answer to a request."""
        self.outcomes[done.outcome] += 1
        match done.outcome:
            case "added":
                self.jobs[number].append(done.id)
                if done.existing_id is not None:
                    assert way.get("unique") == {"on_conflict": "replace"}
                    self.replaced[done.existing_id] += 1
            case "updated":
                self.reruns[done.id].add(number)
            case "deduplicated":
                self.dropped[done.id].append(number)
            case _:
                assert way.get("unique") == {"on_conflict": "reject"}

    def check(self, cancelled: set[int]) -> None:
        """Everything that must be true when all is drained."""
        assert self.replaced.keys() <= cancelled, "a job was named as replaced that was not cancelled"
        numbers = {job: number for number, jobs in self.jobs.items() for job in jobs}
        assert [] == [number for number, jobs in self.jobs.items() if len(jobs) > 1], "a request was doubled"
        for job, number in numbers.items():
            seen = self.runs[job]
            assert {payload for _, payload in seen} <= {number, *self.reruns.get(job, ())}, f"job {job}: a strange run"
            assert seen or job in cancelled, f"job {job} was lost"
        for job, asked in self.reruns.items():
            assert job in cancelled or max(self.runs[job])[1] in asked, f"job {job}: a rerun was lost"
        for job in self.dropped:
            assert self.runs[job] or job in cancelled, f"job {job}: dropped requests were lost"
        assert [] == [job for job, times in self.replaced.items() if times > 1], "a job was replaced twice"


class Players:
    """The concurrent actions, each with a session of its own.

    Attributes:
        made: The number of requests.
    """

    def __init__(self, seed: int, rounds: int) -> None:
        self.ledger = Ledger()
        self.doubled: list[Any] = []
        self.made = 0
        self._rounds = rounds
        self._numbers = itertools.count(1)
        self._tokens = itertools.count(1)
        self._seed = seed
        self._adding = ADDERS  # from the start: the players' connections open in any order

    async def add(self, sql: Session, player: int) -> None:
        """Add requests; a refused one is tried again, as every caller has to, and some are made again for no reason.

        Go on until each outcome has occurred: a rerun needs a job that runs at this moment.
        """
        rng = random.Random(f"{self._seed} {player}")
        rounds = 0
        while rounds < self._rounds or self.ledger.outcomes.keys() != OUTCOMES:
            rounds += 1
            number, way = next(self._numbers), rng.choice(WAYS)
            asked = {"task": rng.choice(TASKS), "payload": number, **way}
            if "force" in way:
                asked["meta"] = {"forced": True}
            if rng.random() < 0.3:
                asked["idempotency_key"] = f"request {number}"
            done = await self._ask(sql, rng.choice(LEVELS), asked, rng)
            self.ledger.note(number, done, way)
            if "idempotency_key" in asked and done.outcome != "rejected":
                again = await self._ask(sql, rng.choice(LEVELS), asked, rng)

                assert ("deduplicated", done.id) == (again.outcome, again.id)
        self.made += rounds
        self._adding -= 1

    async def _ask(self, sql: Session, level: str, asked: dict[str, Any], rng: random.Random) -> Done:
        while True:
            try:
                async with sql.connection.transaction(isolation=level):
                    if rng.random() < 0.3:
                        await sql.rows("select from asyncq._jobs")
                    return await ask(sql, **asked)
            except asyncpg.SerializationError:
                assert level != "read_committed"

    async def watch(self, sql: Session, _player: int) -> None:
        """Check again and again for two jobs of a key that nobody forced."""
        while self._adding:
            self.doubled += await sql.rows(DOUBLED)
            await anyio.sleep(0.001)

    async def work(self, sql: Session, player: int) -> None:
        """Run jobs until all is done: most succeed, some fail, some are returned without a start, some are lost."""
        rng = random.Random(f"{self._seed} {player}")
        while True:
            was_last = not self._adding
            claims = await fetch(sql, rng.randint(1, 3), worker=player, token=next(self._tokens))
            for claim in claims:
                await self._end(sql, claim, player, rng)
            if was_last and not claims and not await sql.run("rescue_jobs", THOROUGH, None) and not await are_left(sql):
                return

    async def _end(self, sql: Session, claim: asyncpg.Record, player: int, rng: random.Random) -> None:
        way = rng.choices(("complete", "fail", "return", "abandon"), (65, 15, 15, 5))[0]
        if way != "return":
            self.ledger.runs[claim["id"]].append((claim["revision"], json.loads(claim["payload"])))
        if way == "abandon":
            return
        await anyio.sleep(rng.random() / 500)
        if way == "complete" and await complete(sql, [claim], worker=player):
            return
        values: dict[str, Any] = {"done": way == "complete", "delay_s": 0.0, "error": "e"}
        values["attempts"] = int(way == "fail")
        while "held" in (await settle_rest(sql, [claim], worker=player, **values)).values():
            pass

    async def rescue(self, sql: Session, _player: int) -> None:
        """No worker of this test has a row: all claims are rescued now and then, those of the living too."""
        while self._adding:
            await sql.run("rescue_jobs", THOROUGH, None)
            await anyio.sleep(0.02)


@pytest.mark.parametrize(
    ("seed", "rounds"),
    [(1, 50), *(pytest.param(seed, 1000, marks=[pytest.mark.slow, pytest.mark.timeout(300)]) for seed in (2, 3, 4))],
)
async def test_no_request_is_lost_or_doubled_by_concurrent_calls(
    dsn: str, sql: Session, seed: int, rounds: int
) -> None:
    """Four callers, two workers, a rescuer and a watcher over three singletons."""
    players = Players(seed, rounds)
    await sql.execute(KEEP)

    async def play(part: Any, player: int) -> None:
        async with session(dsn, sql.schema) as mine:
            await part(mine, player)

    async with anyio.create_task_group() as group:
        for player, part in enumerate([players.add] * ADDERS + [players.work] * 2 + [players.rescue, players.watch], 1):
            group.start_soon(play, part, player)
    left = await sql.rows("select id, locked_by, asyncq._is_discarded(job) as failed from asyncq._jobs as job")

    assert [] == [row for row in left if row["locked_by"] or not row["failed"]]
    assert [] == players.doubled
    assert players.made == sum(players.ledger.outcomes.values())
    players.ledger.check({*await sql.values("select id from asyncq._ended_jobs where state = 'cancelled'")})
