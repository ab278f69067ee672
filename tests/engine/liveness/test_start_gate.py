"""Admission: nothing starts without a proof that the worker lives, and no suspect before it was named."""

import asyncio
from typing import Any

import msgspec
import pytest

from asyncq.engine.base.lease import Lease, now_s
from asyncq.engine.liveness.start_gate import MOST_NAMED, StartGate
from tests.engine.fetch.test_buffer import claim
from tests.support.waiting import LIMIT_S

SUSPECT = msgspec.structs.replace(claim(7), last_error="WorkerLost: worker 1 was not heard of")
NAME = "7/1"


class Stand:
    """A start gate, with the parts that it uses.

    Attributes:
        beats: The number of requested beats.
        runs: The running jobs.
    """

    def __init__(self) -> None:
        self.lease = Lease(30.0)
        self.lease.prove(now_s())
        self.beats = 0
        self.runs: set[Any] = set()
        self.admission = StartGate(self.lease, self.runs, self._beat_now)

    def _beat_now(self) -> None:
        self.beats += 1

    async def ask(self) -> asyncio.Task[bool]:
        """Let a suspect ask; it waits then."""
        asked = asyncio.get_running_loop().create_task(self.admission.admit(SUSPECT))
        await asyncio.sleep(0)
        return asked


async def answer(asked: asyncio.Task[bool]) -> bool:
    """Whether it may start."""
    async with asyncio.timeout(LIMIT_S):
        return await asked


@pytest.fixture
async def gate() -> Stand:
    """A worker that lives, and runs nothing."""
    return Stand()


async def test_a_suspect_waits_for_the_beat_that_names_it(gate: Stand) -> None:
    """It requests a beat at once. A beat that names other claims does not count."""
    asked = await gate.ask()
    gate.admission.named(["8/1", "7/2"])
    await asyncio.sleep(0)
    waits = (asked.done(), gate.admission.waiting, gate.admission.started(), gate.beats)
    gate.admission.named([NAME])

    assert (False, 1, [NAME], 1) == waits
    assert await answer(asked)


@pytest.mark.parametrize(("attempts", "limit"), [(0, 1), (24, 25), (30, 25)])
async def test_the_last_attempt_of_a_job_is_named_before_it_begins(gate: Stand, attempts: int, limit: int) -> None:
    """A worker that dies with it must not be followed by another one that makes it again."""
    last = msgspec.structs.replace(claim(7), attempts=attempts, max_attempts=limit)
    is_plain = gate.admission.may_start_now(last)
    asked = asyncio.get_running_loop().create_task(gate.admission.admit(last))
    await asyncio.sleep(0)
    waits = (is_plain, asked.done(), gate.admission.started())
    gate.admission.named([NAME])

    assert ((False, False, [NAME]), True) == (waits, await answer(asked))


async def test_a_suspect_that_was_named_does_not_start_if_the_lease_ends_before_it_wakes_up(gate: Stand) -> None:
    """Between the answer and its next step others may have taken over."""
    asked = await gate.ask()
    gate.admission.named([NAME])
    gate.lease.end()

    assert not await answer(asked)


@pytest.mark.parametrize("is_named", [False, True])
async def test_a_suspect_that_is_cancelled_while_it_waits_does_not_start(gate: Stand, *, is_named: bool) -> None:
    """The same holds if the beat has named it already. A later claim of the same job is not affected."""
    asked = await gate.ask()
    if is_named:
        gate.admission.named([NAME])
    found = gate.admission.cancel([(7, 1), (7, 2), (8, 1)])
    cancelled = await answer(asked)
    again = await gate.ask()
    gate.admission.named([NAME])

    assert ({(7, 1)}, False, True) == (found, cancelled, await answer(again))


async def test_a_suspect_that_was_answered_is_named_no_more(gate: Stand) -> None:
    """A running job is named by the executor. A refused one must not look as if it had run."""
    asked = await gate.ask()
    gate.admission.refuse()
    started = await answer(asked)

    assert (False, 0, []) == (started, gate.admission.waiting, gate.admission.started())


async def test_a_suspect_that_is_cancelled_while_it_waits_is_not_named_any_more(gate: Stand) -> None:
    """The worker stops, and returns its claim."""
    asked = await gate.ask()
    asked.cancel()
    await asyncio.wait({asked})

    assert (True, 0, []) == (asked.cancelled(), gate.admission.waiting, gate.admission.started())


async def test_a_suspect_does_not_start_on_a_beat_that_came_too_late(gate: Stand) -> None:
    """Others may have taken over since it was sent."""
    asked = await gate.ask()
    gate.lease.end()
    gate.admission.named([NAME])

    assert not await answer(asked)


@pytest.mark.parametrize("one", [claim(7), SUSPECT], ids=["a plain one", "a suspect"])
@pytest.mark.parametrize("why", ["closed", "no lease"])
async def test_nothing_starts_any_more(gate: Stand, one: Any, why: str) -> None:
    """The worker stops, or cannot prove that it lives. No beat would name a suspect."""
    if why == "closed":
        gate.admission.close()
    else:
        gate.lease.end()
    async with asyncio.timeout(LIMIT_S):
        started = await gate.admission.admit(one)

    assert (False, 0) == (started, gate.beats)


async def test_suspects_that_wait_when_it_closes_do_not_start(gate: Stand) -> None:
    """No beat will name them."""
    asked = await gate.ask()
    gate.admission.close()

    assert not await answer(asked)


async def test_a_plain_claim_starts_at_once_while_the_lease_is_held(gate: Stand) -> None:
    """Usually nothing failed before, so no beat is needed."""
    failed = msgspec.structs.replace(claim(8), last_error="ValueError: no")
    plain = [gate.admission.may_start_now(one) for one in (claim(7), failed, SUSPECT)]
    admitted = await gate.admission.admit(failed)
    gate.lease.end()

    assert ([True, False, False], True, 0) == (plain, admitted, gate.beats)
    assert not gate.admission.may_start_now(claim(7))


async def test_waiting_suspects_are_named_before_running_jobs(gate: Stand) -> None:
    """A beat has a limited number of names."""
    gate.runs |= {OneRun(number) for number in range(MOST_NAMED + 1)}
    asked = await gate.ask()
    names = gate.admission.started()
    gate.admission.refuse()
    await answer(asked)

    assert (NAME, MOST_NAMED + 1) == (names[0], len(names))


async def test_a_claim_that_has_to_be_named_is_named_for_as_long_as_it_runs(gate: Stand) -> None:
    """Other jobs may exceed the limit. A job that the row does not name counts as not started."""
    last = {OneRun(number, limit=1) for number in range(MOST_NAMED + 5)}
    gate.runs |= last | {OneRun(number + 10_000) for number in range(10)}

    assert {f"{run.claim.id}/1" for run in last} == {*gate.admission.started()}


@pytest.mark.parametrize(("limit", "named"), [(25, []), (1, ["7/1"])])
async def test_a_run_that_waits_for_a_beat_is_not_named_unless_it_is_the_last_attempt(
    gate: Stand, limit: int, named: list[str]
) -> None:
    """It has not begun, so it loses no attempt. A last attempt that an earlier beat has named must not run twice."""
    run = OneRun(7, limit=limit)
    run.is_waiting = True
    gate.runs.add(run)

    assert named == gate.admission.started()


class OneRun:
    """Stands in for a run; only its name matters."""

    is_waiting = False

    def __init__(self, number: int, limit: int = 25) -> None:
        self.claim = msgspec.structs.replace(claim(number), max_attempts=limit)
        self.claims = [self.claim]
