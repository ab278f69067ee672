"""Thousands of concurrent adds, fetches, ends, rescues and removals, compared with a model.

Each request has a number. Its payload is an array with that number, or an object, which replaces gathered ones. Each
add returns the job of the request and its revision. So all requests of a job have an order, which determines the
payload of each claim. No request is lost: the last run of a job has seen all its requests.
"""

import collections
import itertools
import json
import random
from typing import Any, NamedTuple

import anyio
import asyncpg
import pytest

from tests.support.jobs import are_left, complete, fetch, settle_rest
from tests.support.session import Session, session

KEYS = ("a", "b", "c")
MODES = ("replace", "replace", "preserve_run_at", "unsafe_dedupe")
LEVELS = ("read_committed", "read_committed", "repeatable_read", "serializable")
ADD = """
select job.id, job.revision, job.key
from asyncq.add_job('t', $1::text::json, job_key := $2, job_key_mode := $3, queue_name := $4, max_attempts := 3) as job
"""
ADDERS = 4
THOROUGH = True


class Request(NamedTuple):
    """An add that was committed."""

    number: int
    writes: bool
    is_array: bool


class Seen(NamedTuple):
    """The revision and the payload of a claim."""

    revision: int
    payload: Any


class Ledger:
    """All committed changes.

    Attributes:
        requests: Job -> revision -> the request that made it.
        runs: Job -> the payloads of its runs, in their order; claims that were returned unstarted do not count.
        removed: Job -> its revision when it was removed while it waited.
        retries: How many adds got 40001.
    """

    def __init__(self) -> None:
        self.requests: dict[int, dict[int, Request]] = collections.defaultdict(dict)
        self.runs: dict[int, list[Seen]] = collections.defaultdict(list)
        self.removed: dict[int, int] = {}
        self.let_go: set[int] = set()
        self.retries = 0

    def added(self, job: int, revision: int, request: Request) -> None:
        """Note an add; each revision of a job was made by one."""
        assert revision not in self.requests[job]
        self.requests[job][revision] = request

    def payload(self, job: int, revision: int) -> Any:
        """The payload of a job at a revision: the requests up to it, one after the other."""
        held: Any = None
        for _, request in sorted(self.requests[job].items())[: revision + 1]:
            if request.writes or held is None:
                new = [request.number] if request.is_array else {"n": request.number}
                held = held + new if isinstance(held, list) and isinstance(new, list) else new
        return held

    def last_written(self, job: int) -> int:
        """The revision of the last request that changed a job."""
        return max((revision for revision, request in self.requests[job].items() if request.writes or revision == 0))

    def check(self) -> None:
        """Everything that must be true when all is drained."""
        for job, requests in self.requests.items():
            assert sorted(requests) == list(range(len(requests))), f"job {job}: a revision without a request"
            for seen in self.runs[job]:
                assert self.payload(job, seen.revision) == seen.payload, f"job {job}: a run of something else"
            if job in self.removed:
                assert max(requests) <= self.removed[job], f"job {job}: a request for a removed job"
            elif job not in self.let_go:
                assert self.runs[job], f"job {job} never ran"
                # A worker may notice late that its claim was rescued: runs end in any order.
                newest = max(seen.revision for seen in self.runs[job])
                assert newest >= self.last_written(job), f"job {job}: the last request never ran"


class Players:
    """The concurrent actions, each with a session of its own."""

    def __init__(self, seed: int, rounds: int) -> None:
        self.ledger = Ledger()
        self._rounds = rounds
        self._numbers = itertools.count(1)
        self._tokens = itertools.count(1)
        self._seed = seed
        self._adding = ADDERS  # from the start: the players' connections open in any order

    async def add(self, sql: Session, player: int) -> None:
        """Add requests of random keys, modes and levels; a refused one is tried again, as every caller has to."""
        rng = random.Random(f"{self._seed} {player}")
        for _ in range(self._rounds):
            number, key, mode = next(self._numbers), rng.choice(KEYS), rng.choice(MODES)
            is_array = rng.random() < 0.7
            payload = json.dumps([number] if is_array else {"n": number})
            level = rng.choice(LEVELS)
            while True:
                try:
                    async with sql.connection.transaction(isolation=level):
                        if rng.random() < 0.3:
                            await sql.rows("select from asyncq._jobs")
                        row = await sql.row(ADD, payload, key, mode, rng.choice((None, "q")))
                    break
                except asyncpg.SerializationError:
                    assert level != "read_committed"
                    self.ledger.retries += 1
            assert row["id"] is not None
            self.ledger.added(row["id"], row["revision"], Request(number, mode != "unsafe_dedupe", is_array))
        self._adding -= 1

    async def work(self, sql: Session, player: int) -> None:
        """Run jobs until all is done: most succeed, some fail, some are returned without a start, some are lost."""
        rng = random.Random(f"{self._seed} {player}")
        while True:
            was_last = not self._adding
            claims = await fetch(sql, rng.randint(1, 3), worker=player, token=next(self._tokens))
            for claim in claims:
                await self._end(sql, claim, player, rng)
            if was_last and not claims and not await self._rescue(sql) and not await are_left(sql):
                return

    async def _end(self, sql: Session, claim: asyncpg.Record, player: int, rng: random.Random) -> None:
        way = rng.choices(("complete", "fail", "discard", "return", "abandon"), (60, 15, 5, 15, 5))[0]
        seen = Seen(claim["revision"], json.loads(claim["payload"]))
        if way == "abandon":
            self.ledger.runs[claim["id"]].append(seen)
            return
        is_written = way == "complete" and bool(await complete(sql, [claim], worker=player))
        attempts = {"fail": 1, "discard": 32767}.get(way, 0)
        for _ in range(0 if is_written else 200):
            values: dict[str, Any] = {"attempts": attempts, "delay_s": 0.0 if attempts else None, "error": "e"}
            endings = await settle_rest(sql, [claim], worker=player, done=way == "complete", **values)
            is_written = endings[claim["id"]] not in ("held", "lost")
            if endings[claim["id"]] != "held":
                break
        if way != "return" or not is_written:
            self.ledger.runs[claim["id"]].append(seen)

    async def _rescue(self, sql: Session) -> list[asyncpg.Record]:
        """No worker of this test has a row: all claims are rescued, those of the living too: their ends are refused."""
        return await sql.run("rescue_jobs", THOROUGH, None)

    async def rescue(self, sql: Session, _player: int) -> None:
        """Rescue now and then."""
        while self._adding:
            await self._rescue(sql)
            await anyio.sleep(0.02)

    async def remove(self, sql: Session, player: int) -> None:
        """Remove jobs now and then."""
        rng = random.Random(f"{self._seed} {player}")
        while self._adding:
            row = await sql.row("select * from asyncq.remove_job($1)", rng.choice(KEYS))
            if row["id"] is not None:
                if row["locked_by"] is None:
                    self.ledger.removed[row["id"]] = row["revision"]
                else:
                    self.ledger.let_go.add(row["id"])
            await anyio.sleep(0.005)


@pytest.mark.parametrize(
    ("seed", "rounds"),
    [(1, 60), *(pytest.param(seed, 1500, marks=[pytest.mark.slow, pytest.mark.timeout(300)]) for seed in (2, 3, 4))],
)
async def test_no_request_is_lost_by_concurrent_calls(dsn: str, sql: Session, seed: int, rounds: int) -> None:
    """Four callers, two workers, a rescuer and a remover over three keys."""
    players = Players(seed, rounds)

    async def play(part: Any, player: int) -> None:
        async with session(dsn, sql.schema) as mine:
            await part(mine, player)

    async with anyio.create_task_group() as group:
        for player, part in enumerate(
            [players.add] * ADDERS + [players.work] * 2 + [players.rescue, players.remove], 1
        ):
            group.start_soon(play, part, player)
    left = await sql.rows("select key, locked_by, attempts < max_attempts as alive from asyncq._jobs")

    assert [] == [row for row in left if row["locked_by"] or row["alive"]]
    assert 4 * rounds == sum(len(requests) for requests in players.ledger.requests.values())
    players.ledger.check()
