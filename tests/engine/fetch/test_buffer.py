"""The buffer: claims reach those who wait, in order, and none is lost when a waiting one is cancelled."""

import asyncio
import time
from typing import Any

from asyncq.domain.job import Claim
from asyncq.engine.fetch.buffer import BREATH, LONGEST_HOLD_S, PAUSE, Buffer
from tests.support.waiting import LIMIT_S


def claim(number: int) -> Claim:
    """A claim of the job of that id."""
    return Claim(number, 1, None, 1, 0, 25, 0, 0, 0, 0, 0, 0, None, None, "{}", None, None)


def make() -> tuple[Buffer, list[int]]:
    """A buffer, and how often it called `low`."""
    calls: list[int] = []
    return Buffer(lambda: calls.append(1)), calls


def taking(buffer: Buffer) -> asyncio.Task[Any]:
    """A slot that takes one claim."""
    return asyncio.get_running_loop().create_task(buffer.take())


async def turns(count: int = 3) -> None:
    """Let the loop run."""
    for _ in range(count):
        await asyncio.sleep(0)


async def test_claims_are_taken_in_the_order_in_which_they_were_put() -> None:
    """The order of the fetch is the order of running."""
    buffer, _ = make()
    buffer.put([claim(1), claim(2)])
    buffer.put([claim(3)])
    taken = [await buffer.take() for _ in range(3)]

    assert [1, 2, 3] == [item.id for item in taken if item]


async def test_waiting_slots_are_counted_and_served_first_come_first_served() -> None:
    """The fetcher fetches for the waiting slots."""
    buffer, _ = make()
    waiting = [taking(buffer) for _ in range(3)]
    await turns()
    count = buffer.waiting
    buffer.put([claim(1), claim(2)])
    await turns()
    served = [task.done() for task in waiting]
    buffer.close()
    await asyncio.wait(waiting)

    assert (3, [True, True, False]) == (count, served)


async def test_a_claim_for_a_cancelled_slot_goes_to_the_next() -> None:
    """The slot was woken, and cancelled before it took the claim: the wake-up must not be lost."""
    buffer, _ = make()
    first, second = taking(buffer), taking(buffer)
    await turns()
    buffer.put([claim(1)])
    first.cancel()
    async with asyncio.timeout(LIMIT_S):
        taken = await second

    assert (True, 1) == (first.cancelled(), taken and taken.id)


async def test_a_slot_that_was_cancelled_while_waiting_does_not_wait_any_more() -> None:
    """Otherwise the fetcher would fetch for it."""
    buffer, _ = make()
    waiting = taking(buffer)
    await turns()
    waiting.cancel()
    await asyncio.wait({waiting})

    assert 0 == buffer.waiting


async def test_closing_ends_waiting_slots_and_returns_the_claims_that_nobody_took() -> None:
    """The unstarted claims are returned."""
    buffer, _ = make()
    waiting = [taking(buffer) for _ in range(2)]
    await turns()
    buffer.put([claim(number) for number in range(5)])
    await turns()
    left = buffer.close()
    ended = taking(buffer)
    await asyncio.wait([*waiting, ended])

    assert ([2, 3, 4], None) == ([item.id for item in left], ended.result())


async def test_draining_leaves_waiting_slots_waiting() -> None:
    """Stale claims are returned, and the next fetch serves the waiting slots."""
    buffer, _ = make()
    buffer.put([claim(1)])
    drained = buffer.drain()
    waiting = taking(buffer)
    await turns()
    buffer.put([claim(2)])
    taken = await waiting

    assert ([1], 2) == ([item.id for item in drained], taken and taken.id)


async def test_the_fetcher_is_notified_of_each_taken_claim_and_each_waiting_slot() -> None:
    """It decides whether that is a reason to fetch."""
    buffer, calls = make()
    buffer.put([claim(1)])
    await buffer.take()
    after_taking = len(calls)
    waiting = taking(buffer)
    await turns()
    after_waiting = len(calls)
    buffer.close()
    await asyncio.wait({waiting})

    assert (1, 2) == (after_taking, after_waiting)


async def test_taking_many_claims_lets_the_loop_run_now_and_then() -> None:
    """Handlers that never wait would otherwise block the next fetch and all notifications."""
    buffer, _ = make()
    heard = asyncio.Event()
    buffer.put([claim(number) for number in range(BREATH)])
    asyncio.get_running_loop().call_soon(heard.set)
    for _ in range(BREATH):
        await buffer.take()

    assert heard.is_set()


def spin(for_s: float) -> None:
    """Block the event loop for so long."""
    until = time.perf_counter() + for_s
    while time.perf_counter() < until:
        pass


async def hold_the_loop(buffer: Buffer, log: list[str], for_s: float) -> None:
    """Handle claims one by one; each blocks the event loop for so long."""
    while (buffer.pop() or await buffer.take()) is not None:
        log.append("claim")
        spin(for_s)
        buffer.held(for_s)
        if not buffer:
            buffer.close()


async def rounds_of(for_s: float, *, claims: int) -> tuple[list[str], Buffer]:
    """Run ten slots beside the event loop; returns the order of their claims and its rounds."""
    buffer, _ = make()
    log: list[str] = []
    async with asyncio.TaskGroup() as group:
        slots = [group.create_task(hold_the_loop(buffer, log, for_s)) for _ in range(10)]
        await turns()
        buffer.put([claim(number) for number in range(claims)])
        while not all(slot.done() for slot in slots):
            log.append("round")
            await asyncio.sleep(0)
    return log, buffer


async def test_handlers_that_hold_the_loop_soon_leave_it_to_others_however_many_slots_there_are() -> None:
    """Ten slots with seven jobs of some milliseconds each would block everything else for half a second."""
    log, _ = await rounds_of(0.6 * LONGEST_HOLD_S, claims=8)
    words = " ".join(log).split("round")

    assert 2 == max(part.count("claim") for part in words)


async def test_others_have_the_loop_for_several_rounds() -> None:
    """A statement needs several rounds until it is sent, and as many for its answer."""
    log, _ = await rounds_of(1.1 * LONGEST_HOLD_S, claims=4)
    pauses = [part.count("round") for part in " ".join(log).split("claim")[1:-1]]

    assert min(pauses) >= PAUSE


async def test_other_code_that_blocks_the_loop_makes_no_slot_wait() -> None:
    """Otherwise slots in a busy process would wait for several rounds each time."""
    buffer, _ = make()
    buffer.put([claim(1), claim(2)])
    first = buffer.pop()
    spin(1.5 * LONGEST_HOLD_S)
    second = buffer.pop()

    assert (1, 2) == (first and first.id, second and second.id)


async def test_handlers_that_blocked_the_loop_before_it_was_free_make_no_slot_wait() -> None:
    """Otherwise each of one long job a second would start three rounds later."""
    buffer, _ = make()
    buffer.put([claim(1)])
    await buffer.take()
    buffer.held(2 * LONGEST_HOLD_S)
    buffer.put([claim(2)])
    taken = buffer.pop()

    assert 2 == (taken and taken.id)


async def test_a_slot_that_is_cancelled_while_others_run_hands_its_wake_up_on() -> None:
    """Otherwise a claim would stay in the buffer beside a waiting slot."""
    buffer, _ = make()
    first, second, third = taking(buffer), taking(buffer), taking(buffer)
    await turns()
    buffer.put([claim(1), claim(2)])
    buffer.pop()
    buffer.held(2 * LONGEST_HOLD_S)
    await turns(1)
    first.cancel()
    second.cancel()
    async with asyncio.timeout(LIMIT_S):
        taken = await third

    assert 2 == (taken and taken.id)


async def test_a_claim_that_is_drained_during_that_breath_is_not_taken() -> None:
    """The fetcher may return the remaining claims meanwhile."""
    buffer, _ = make()
    buffer.put([claim(number) for number in range(BREATH)])
    for _ in range(BREATH - 1):
        await buffer.take()
    last = taking(buffer)
    await turns(1)
    left = buffer.drain()
    await turns()
    buffer.close()
    await asyncio.wait({last})

    assert (1, None) == (len(left), last.result())


async def test_claims_that_are_removed_are_not_taken() -> None:
    """They are found by id and token: a later claim of the same job differs. The fetcher may have room again."""
    buffer, calls = make()
    buffer.put([claim(1), claim(2), claim(3)])
    removed = [taken.id for taken in buffer.remove({(2, 1), (3, 99), (4, 1)})]
    nothing = buffer.remove({(2, 1)})

    assert ([2], [], [1]) == (removed, nothing, calls)
    assert [1, 3] == [taken.id for taken in buffer.drain()]


async def test_the_overflow_is_the_last_claims_without_a_free_slot() -> None:
    """A slot that was woken counts as free, although it has not run yet."""
    buffer, _ = make()
    waiting = [taking(buffer) for _ in range(2)]
    await turns()
    buffer.put([claim(number) for number in range(1, 6)])
    over = [item.id for item in buffer.overflow()]
    nothing_more = buffer.overflow()
    await asyncio.wait(waiting)
    taken = [task.result() for task in waiting]
    buffer.put([claim(6)])
    without_workers = [item.id for item in buffer.overflow()]

    assert ([3, 4, 5], [], [1, 2], [6]) == (over, nothing_more, [item.id for item in taken if item], without_workers)


async def test_claims_that_were_set_aside_are_taken_out_like_those_that_wait() -> None:
    """By a cancellation, a loss of the worker's id, or a shutdown; until their call starts."""
    buffer, _ = make()
    buffer.put([claim(number) for number in range(1, 6)])
    aside, started = buffer.set_aside(), buffer.set_aside()
    aside += buffer.extract(lambda _: True, 2)
    started += buffer.extract(lambda _: True, 1)
    buffer.end_aside(started)

    assert [2] == [each.id for each in buffer.remove({(2, 1), (3, 1)})]
    assert [1] == [each.id for each in aside]
    assert [4, 5, 1] == [each.id for each in buffer.drain()]
    assert ([], [3]) == (aside, [each.id for each in started])


async def test_wanted_claims_are_extracted_and_the_others_stay_in_their_order() -> None:
    """A slot that collects jobs of one task leaves the others to other slots, and wakes one of them."""
    buffer, lows = make()
    waiting = taking(buffer)
    await turns()
    collecting = asyncio.get_running_loop().create_task(buffer.wait())
    await turns()
    assert 2 == buffer.waiting
    waiting.cancel()
    buffer.put([claim(number) for number in range(1, 7)])
    other = taking(buffer)
    await collecting
    before = len(lows)

    assert [2, 4] == [each.id for each in buffer.extract(lambda each: each.id % 2 == 0, 2)]
    assert (claim(1), before) == (await other, len(lows))
    assert [3, 5, 6] == [each.id for each in buffer.drain()]
