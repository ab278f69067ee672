"""Random lives of marked jobs: no mark is lost, and no job or queue is stuck, whatever ends the claims."""

import random
from dataclasses import dataclass

import asyncpg
import pytest

from tests.support.jobs import add, claimed, complete, fetch, locked_queues, settle_rest
from tests.support.marked import ASK_AGAIN, CANCEL, ended, keep
from tests.support.session import Session
from tests.support.soaking import TIMES

WORKERS = (1, 2)
ATTEMPTS = 3


@dataclass
class Life:
    """The state of a job in the model.

    Attributes:
        claim: The claim, if it runs.
        worker: The worker that has the claim.
        mark: The mark that it got while it runs: "", "cancelled" or "again".
        kept: Whether it is to be kept once it has ended.
        attempts: How often it has failed.
        recorded: How many failed attempts are recorded; a new request changes nothing of them.
        payload: The payload of the last request.
        end: How it has ended, if it has.
    """

    claim: asyncpg.Record | None = None
    worker: int = 0
    mark: str = ""
    kept: bool = False
    attempts: int = 0
    recorded: int = 0
    payload: str = "{}"
    end: str = ""

    def let_go(self, *, completed: bool = False, failures: int = 0) -> None:
        """Its claim ends."""
        if self.mark == "cancelled":
            self.end = "cancelled"
        elif self.mark == "again":
            self.attempts, self.payload = 0, '{"again": 1}'
        elif completed:
            self.end = "completed"
        else:
            self.attempts = min(self.attempts + failures, ATTEMPTS)
            self.recorded += failures > 0
        self.claim, self.mark = None, ""


class World:
    """The database and the model, side by side."""

    def __init__(self, sql: Session, chance: random.Random) -> None:
        self._sql = sql
        self._chance = chance
        self._token = 0
        self.lives: dict[int, Life] = {}

    def _running(self) -> list[int]:
        return [job for job, life in self.lives.items() if life.claim is not None]

    async def add(self) -> None:
        """A job, some of them of a queue, some to be kept."""
        queue = self._chance.choice([None, "a", "b"])
        job = await add(self._sql, queue=queue, max_attempts=ATTEMPTS)
        self.lives[job] = Life(kept=self._chance.random() < 0.5)
        if self.lives[job].kept:
            await keep(self._sql, job)

    async def fetch(self) -> None:
        """A worker takes some."""
        self._token += 1
        worker = self._chance.choice(WORKERS)
        for claim in await fetch(self._sql, self._chance.randint(1, 3), worker=worker, token=self._token):
            life = self.lives[claim["id"]]
            assert (life.claim, life.end, life.attempts, life.payload) == (
                None,
                "",
                claim["attempts"],
                claim["payload"],
            )
            life.claim, life.worker = claim, worker

    async def cancel(self) -> None:
        """Any job, also one that has ended."""
        if self.lives:
            job = self._chance.choice([*self.lives])
            life = self.lives[job]
            await self._sql.rows(CANCEL, job)
            if life.claim is not None:
                life.mark = "cancelled"
            elif not life.end and life.attempts < ATTEMPTS:
                life.end = "cancelled"

    async def ask_again(self) -> None:
        """One that runs, and is not cancelled."""
        jobs = [job for job in self._running() if self.lives[job].mark != "cancelled"]
        if jobs:
            job = self._chance.choice(jobs)
            await self._sql.rows(ASK_AGAIN, job)
            self.lives[job].mark = "again"

    async def settle(self) -> None:
        """Settle some claims of a worker as the completer does: good ends first, then the rest."""
        worker, done = self._chance.choice(WORKERS), self._chance.random() < 0.5
        jobs = [job for job in self._running() if self.lives[job].worker == worker and self._chance.random() < 0.7]
        claims = [life.claim for job in jobs if (life := self.lives[job]).claim is not None]
        failures = self._chance.choice([0, 1, ATTEMPTS])
        written = await complete(self._sql, claims, worker) if done else []
        rest = [claim for claim in claims if claim["id"] not in written]
        kind = "failed" if failures else None
        endings = await settle_rest(self._sql, rest, done=done, worker=worker, attempts=failures, error="e", kind=kind)

        assert set(jobs) == {*written, *endings}
        assert {"held", "lost"}.isdisjoint(endings.values())
        for job in jobs:
            self.lives[job].let_go(completed=done, failures=failures)

    async def lose_an_answer(self) -> None:
        """The claims of one fetch are returned by its token."""
        token, worker = self._chance.randint(1, max(self._token, 1)), self._chance.choice(WORKERS)
        await self._sql.run("return_lost", worker, [token])
        for life in self.lives.values():
            if life.claim is not None and (life.worker, life.claim["lock_token"]) == (worker, token):
                life.let_go()

    async def lose_the_workers(self) -> None:
        """Delete the rows of all workers: all are dead, and no record shows which jobs had started."""
        await self._sql.rows("select from asyncq._rescue_jobs(true)")
        for job in self._running():
            self.lives[job].let_go()

    async def check(self) -> None:
        """The table holds what the model says."""
        rows = await self._sql.rows("""
            select job.id, job.locked_by, job.attempts, job.payload::text, job.cancelled_at is not null as cancelled,
              job.rerun is not null as again
            from asyncq._jobs as job""")
        found = {row["id"]: tuple(row)[1:] for row in rows}

        assert {
            job: (life.worker if life.claim else None, life.attempts, life.payload, *marks(life))
            for job, life in self.lives.items()
            if not life.end
        } == found
        assert sorted((job, life.end) for job, life in self.lives.items() if life.end and life.kept) == await ended(
            self._sql
        )
        recorded = await self._sql.rows("select job_id, count(*) from asyncq.attempts group by job_id")
        assert {job: life.recorded for job, life in self.lives.items() if life.recorded} == dict(recorded)


def marks(life: Life) -> tuple[bool, bool]:
    """Whether the row has the mark of a cancellation, and of a rerun."""
    return life.mark == "cancelled", life.mark == "again"


@pytest.mark.parametrize("seed", range(6 if TIMES == 1 else 12))
async def test_no_mark_is_lost_and_nothing_is_stuck(sql: Session, seed: int) -> None:
    """They are settled, returned or rescued in any order, each by another statement."""
    chance = random.Random(seed)
    world = World(sql, chance)
    steps = [world.add, world.fetch, world.fetch, world.cancel, world.ask_again, world.settle, world.settle]
    for _ in range(120):
        step = chance.choice([*steps, world.lose_an_answer, world.lose_the_workers])
        await step()
        await world.check()
    await world.lose_the_workers()
    await world.check()

    assert ([], []) == (await claimed(sql), await locked_queues(sql))
