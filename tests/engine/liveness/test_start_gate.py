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
    """An admission, with what it depends on.

    Attributes:
        beats: How often a beat was asked for.
        runs: What runs.
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
async def stand() -> Stand:
    """A worker that lives, and runs nothing."""
    return Stand()


async def test_a_suspect_waits_for_the_beat_that_names_it(stand: Stand) -> None:
    """A beat is asked for at once; one that named others says nothing about it."""
    asked = await stand.ask()
    stand.admission.named(["8/1", "7/2"])
    await asyncio.sleep(0)
    waits = (asked.done(), stand.admission.waiting, stand.admission.started(), stand.beats)
    stand.admission.named([NAME])

    assert (False, 1, [NAME], 1) == waits
    assert await answer(asked)


@pytest.mark.parametrize(("attempts", "limit"), [(0, 1), (24, 25), (30, 25)])
async def test_the_last_attempt_of_a_job_is_named_before_it_begins(stand: Stand, attempts: int, limit: int) -> None:
    """A worker that dies with it must not be followed by another one that makes it again."""
    last = msgspec.structs.replace(claim(7), attempts=attempts, max_attempts=limit)
    is_plain = stand.admission.may_start_now(last)
    asked = asyncio.get_running_loop().create_task(stand.admission.admit(last))
    await asyncio.sleep(0)
    waits = (is_plain, asked.done(), stand.admission.started())
    stand.admission.named([NAME])

    assert ((False, False, [NAME]), True) == (waits, await answer(asked))


async def test_a_suspect_that_was_named_does_not_start_if_the_lease_ends_before_it_wakes_up(stand: Stand) -> None:
    """Between the answer and its next step others may have taken over."""
    asked = await stand.ask()
    stand.admission.named([NAME])
    stand.lease.end()

    assert not await answer(asked)


@pytest.mark.parametrize("is_named", [False, True])
async def test_a_suspect_that_is_cancelled_while_it_waits_does_not_start(stand: Stand, *, is_named: bool) -> None:
    """Nor one that was named already, and has not gone on yet; a later claim of the same job is another one."""
    asked = await stand.ask()
    if is_named:
        stand.admission.named([NAME])
    found = stand.admission.cancel([(7, 1), (7, 2), (8, 1)])
    cancelled = await answer(asked)
    again = await stand.ask()
    stand.admission.named([NAME])

    assert ({(7, 1)}, False, True) == (found, cancelled, await answer(again))


async def test_a_suspect_that_was_answered_is_named_no_more(stand: Stand) -> None:
    """As what runs it is named by the executor; and one that was refused must not pass for one that ran."""
    asked = await stand.ask()
    stand.admission.refuse()
    started = await answer(asked)

    assert (False, 0, []) == (started, stand.admission.waiting, stand.admission.started())


async def test_a_suspect_that_is_cancelled_while_it_waits_is_named_no_more(stand: Stand) -> None:
    """The worker stops: its claim goes back."""
    asked = await stand.ask()
    asked.cancel()
    await asyncio.wait({asked})

    assert (True, 0, []) == (asked.cancelled(), stand.admission.waiting, stand.admission.started())


async def test_a_suspect_does_not_start_on_a_beat_that_came_too_late(stand: Stand) -> None:
    """Others may have taken over since it was sent."""
    asked = await stand.ask()
    stand.lease.end()
    stand.admission.named([NAME])

    assert not await answer(asked)


@pytest.mark.parametrize("one", [claim(7), SUSPECT], ids=["a plain one", "a suspect"])
@pytest.mark.parametrize("why", ["closed", "no lease"])
async def test_nothing_starts_any_more(stand: Stand, one: Any, why: str) -> None:
    """The worker stops, or cannot prove that it lives; nobody would name a suspect then."""
    if why == "closed":
        stand.admission.close()
    else:
        stand.lease.end()
    async with asyncio.timeout(LIMIT_S):
        started = await stand.admission.admit(one)

    assert (False, 0) == (started, stand.beats)


async def test_those_who_wait_when_it_closes_do_not_start(stand: Stand) -> None:
    """No beat will name them."""
    asked = await stand.ask()
    stand.admission.close()

    assert not await answer(asked)


async def test_what_is_plain_starts_at_once_while_the_lease_is_held(stand: Stand) -> None:
    """The usual case: nothing failed before, and no beat is needed."""
    failed = msgspec.structs.replace(claim(8), last_error="ValueError: no")
    plain = [stand.admission.may_start_now(one) for one in (claim(7), failed, SUSPECT)]
    admitted = await stand.admission.admit(failed)
    stand.lease.end()

    assert ([True, False, False], True, 0) == (plain, admitted, stand.beats)
    assert not stand.admission.may_start_now(claim(7))


async def test_those_who_wait_are_named_before_all_that_runs(stand: Stand) -> None:
    """A beat carries only so many names."""
    stand.runs |= {OneRun(number) for number in range(MOST_NAMED + 1)}
    asked = await stand.ask()
    names = stand.admission.started()
    stand.admission.refuse()
    await answer(asked)

    assert (NAME, MOST_NAMED + 1) == (names[0], len(names))


async def test_what_has_to_be_named_is_named_for_as_long_as_it_runs(stand: Stand) -> None:
    """With any number of other jobs: a row that does not name it means that it has not begun."""
    last = {OneRun(number, limit=1) for number in range(MOST_NAMED + 5)}
    stand.runs |= last | {OneRun(number + 10_000) for number in range(10)}

    assert {f"{run.claim.id}/1" for run in last} == {*stand.admission.started()}


@pytest.mark.parametrize(("limit", "named"), [(25, []), (1, ["7/1"])])
async def test_a_run_that_waits_for_a_beat_is_not_named_unless_it_is_the_last_attempt(
    stand: Stand, limit: int, named: list[str]
) -> None:
    """It has not begun, so it loses no attempt; a last attempt, which an earlier beat has named, must not run twice."""
    run = OneRun(7, limit=limit)
    run.is_waiting = True
    stand.runs.add(run)

    assert named == stand.admission.started()


class OneRun:
    """A run, as far as its name goes."""

    is_waiting = False

    def __init__(self, number: int, limit: int = 25) -> None:
        self.claim = msgspec.structs.replace(claim(number), max_attempts=limit)
