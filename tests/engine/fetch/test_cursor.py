"""Where scans for jobs begin, and how much time scans from the start may take."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from asyncq import Client, task
from asyncq.domain.events import JobCompleted
from asyncq.domain.job import Claim
from asyncq.domain.moment import moment_of
from asyncq.engine.fetch import cursor
from asyncq.engine.fetch.cursor import CHEAP_S, FROM_START_S, IDLE_SHARE, MARGIN_S, NARROW_S, SHARE, FetchCursor
from asyncq.store.claim import START, Place
from tests.engine.conftest import MakeWorker
from tests.support.seen import Seen
from tests.support.waiting import wait_until

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
WANTED = 2
NOW = 2.0


def claim(number: int, priority: int = 0, partition: int | None = None) -> Claim:
    """A claim whose place in the order is its number."""
    at = NOON + timedelta(seconds=number)
    values = (number, 1, None, 3, 0, 25, 0, priority, 0, moment_of(at), 0, 0, None, None, "null", None, None)
    return Claim(*values, partition=partition)


def place(number: int, priority: int = 0) -> Place:
    """The same place."""
    return Place(priority, NOON + timedelta(seconds=number), number)


def scan(of: FetchCursor, began: float, took_s: float, *claims: Claim) -> Place:
    """One scan for two jobs."""
    begun = of.begin(began)
    of.took(begun, claims, WANTED)
    of.ended(begun, began + took_s, took_s)
    return begun.after


@pytest.mark.parametrize(
    ("seen_so_far", "is_cheap", "is_due", "reach"),
    [
        (cursor.Seen(), False, False, "everything"),
        (cursor.Seen(START, all_at=1.0), True, False, "everything"),
        (cursor.Seen(START, all_at=1.0), False, True, "everything"),
        (cursor.Seen(place(1), all_at=1.0, based_at=1.0, is_at_end=True), True, True, "everything"),
        (cursor.Seen(place(1), based_at=1.0), True, False, "next"),
        (cursor.Seen(place(1), all_at=NOW, based_at=NOW, is_at_end=True), True, False, "recent"),
        (cursor.Seen(START, all_at=NOW, based_at=NOW, is_at_end=True), False, False, "recent"),
        (cursor.Seen(place(1), all_at=0.5, based_at=NOW - FROM_START_S), True, False, "recent"),
        (cursor.Seen(place(1), all_at=0.5, based_at=NOW - FROM_START_S / 2), True, False, "next"),
    ],
)
def test_how_far_a_scan_reaches(seen_so_far: cursor.Seen, is_cheap: bool, is_due: bool, reach: str) -> None:
    """Each line of the module's table is tested."""
    decided = seen_so_far.reach(NOW, is_cheap=is_cheap, is_due=is_due)

    assert reach == decided


def test_a_full_batch_is_followed_by_a_scan_behind_it() -> None:
    """Taken jobs leave dead index entries, which the next scan should skip."""
    made = FetchCursor()
    scan(made, 0.0, 0.001, claim(1), claim(2))

    assert place(2) == made.begin(0.01).after


def test_while_jobs_come_a_scan_begins_at_the_start_once_in_a_while() -> None:
    """A job of higher priority, or one that was committed late, is behind the cursor."""
    made = FetchCursor()
    scan(made, 0.0, 0.001, claim(1), claim(2))
    scan(made, 0.01, 0.001, claim(3), claim(4))

    assert START is made.begin(FROM_START_S).after


def test_after_a_cheap_scan_from_the_start_that_found_all_the_next_one_begins_there_too() -> None:
    """No dead entries have piled up, so each wake-up sees everything."""
    made = FetchCursor()
    scan(made, 0.0, CHEAP_S / 2, claim(1))

    assert START is made.begin(0.011).after


def test_expensive_scans_from_the_start_take_a_tenth_of_the_time() -> None:
    """Over a million dead entries one takes a tenth of a second; wake-ups in between leave out what it has seen."""
    made = FetchCursor()
    scan(made, 0.0, 1.0, claim(1))
    early, late = scan(made, 1.5, 0.001, claim(2)), made.begin(SHARE + 0.01).after

    assert (Place(since_s=1.5 + MARGIN_S), START) == (early, late)


def test_expensive_scans_from_the_start_take_a_hundredth_of_the_time_while_nothing_asks_for_them() -> None:
    """A million jobs of others do not keep an idle worker busy: nothing has happened that it could have missed."""
    made = FetchCursor()
    first = made.begin(0.0, woken=True)
    made.took(first, [], WANTED)
    made.ended(first, 1.0, 1.0)
    early, late = scan(made, SHARE + 0.01, 0.001), scan(made, IDLE_SHARE + 0.01, 1.0)
    woken = made.begin(IDLE_SHARE + SHARE + 0.02, woken=True).after
    after = scan(made, IDLE_SHARE + SHARE + 0.03, 0.001)

    assert (SHARE + 0.01 + MARGIN_S, START) == (early.since_s, late)
    # An added job is found first, then one that was returned.
    assert (None, START) != (woken.since_s, woken)
    assert START is after


def test_a_worker_that_is_woken_all_the_time_scans_from_the_start_too() -> None:
    """It is delayed by one scan, not for ever."""
    made = FetchCursor()
    scan(made, 0.0, 1.0)
    looks_so: list[bool] = []
    for number in range(3):
        begun = made.begin(SHARE + number / 100, woken=True)
        made.took(begun, [], WANTED)
        made.ended(begun, SHARE + number / 100 + 0.001, 0.001)
        looks_so.append(begun.after is START)

    assert [False, True, True] == looks_so


def test_a_scan_that_goes_back_too_far_for_its_price_goes_back_less_for_a_while() -> None:
    """Late commits may be many, so that those of some seconds take long to read."""
    made = FetchCursor()
    scan(made, 0.0, 1.0)
    scan(made, 1.0, 0.5)
    narrow, wide = scan(made, 2.0, 0.001), scan(made, 1.5 + SHARE * 0.5, 0.001)

    assert (1.0 + NARROW_S, 4.5 + MARGIN_S) == (narrow.since_s, wide.since_s)


def test_a_scan_that_failed_has_seen_nothing() -> None:
    """The next scan must begin at the same place. Otherwise later ones would skip its jobs."""
    made = FetchCursor()
    scan(made, 0.0, 1.0, claim(1))
    scan(made, 2.0, 0.001, claim(2), claim(3))
    failed, again = made.begin(2.0 + 2 * FROM_START_S).after, scan(made, 2.001 + 2 * FROM_START_S, 0.001)

    assert (None, None) == (failed.priority, again.priority)
    assert 2 + MARGIN_S < again.since_s


def test_while_jobs_come_expensive_scans_take_a_tenth_of_the_time_too() -> None:
    """Otherwise every scan would begin at the start and find few jobs."""
    made = FetchCursor()
    scan(made, 0.0, 1.0, claim(1), claim(2))

    assert (place(2), START) == (made.begin(1.0 + FROM_START_S).after, made.begin(SHARE + 0.01).after)


def test_a_job_of_higher_priority_does_not_take_the_cursor_back() -> None:
    """All due jobs had been read."""
    made = FetchCursor()
    scan(made, 0.0, 1.0, claim(7))
    scan(made, 10.0, 1.0, claim(8, priority=-1))

    assert Place(since_s=1.5 + MARGIN_S) == made.begin(11.5).after


def test_a_full_batch_of_higher_priority_takes_the_cursor_back() -> None:
    """More of it may wait."""
    made = FetchCursor()
    scan(made, 0.0, 1.0, claim(7))
    scan(made, 10.0, 1.0, claim(8, priority=-1), claim(9, priority=-1))

    base = scan(made, 11.5, 0.001, claim(10, priority=-1), claim(11, priority=-1))

    assert Place(since_s=11.5 + MARGIN_S) == base
    assert replace(place(11, -1), since_s=11.55 + MARGIN_S) == made.begin(11.55).after


def test_jobs_of_partitions_do_not_move_the_cursor() -> None:
    """They are found by other indexes."""
    made = FetchCursor()
    scan(made, 0.0, 1.0, claim(1))
    scan(made, 2.0, 0.001, claim(5, partition=9))

    assert Place(since_s=0.5 + MARGIN_S) == made.begin(2.5).after


@pytest.mark.parametrize("priority", [-5, 0, 5])
async def test_a_job_is_found_however_expensive_scans_from_the_start_are(
    client: Client, make_worker: MakeWorker, seen: Seen, monkeypatch: pytest.MonkeyPatch, priority: int
) -> None:
    """A job of higher priority is behind the cursor. The next affordable scan finds it."""
    monkeypatch.setattr(cursor, "CHEAP_S", 0.0)
    monkeypatch.setattr(cursor, "SHARE", 50)

    @task
    async def nothing() -> None: ...

    async with make_worker(nothing, poll=60).start():
        for number in range(1, 4):
            await client.add_job(nothing, priority=priority if number == 3 else 0)
            await seen.wait_for(JobCompleted, number)


async def test_jobs_whose_flag_is_allowed_again_are_found_however_expensive_scans_from_the_start_are(
    client: Client, make_worker: MakeWorker, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scans passed them while they were forbidden, and nothing notifies the worker that they are allowed now."""
    monkeypatch.setattr(cursor, "CHEAP_S", 0.0)
    monkeypatch.setattr(cursor, "MARGIN_S", 0.0)
    monkeypatch.setattr(cursor, "NARROW_S", 0.0)
    monkeypatch.setattr(cursor, "IDLE_SHARE", 10**9)
    forbidden = ["paused"]

    @task
    async def nothing() -> None: ...

    def is_calm() -> bool:
        assert worker._running is not None
        return worker._running.parts.fetcher.cursor.due_at > asyncio.get_running_loop().time() + 60

    worker = make_worker(nothing, poll=0.05, forbidden_flags=lambda: forbidden)
    await client.add_job(nothing, flags=["paused"])
    async with worker.start():
        await client.add_job(nothing)
        await seen.wait_for(JobCompleted)
        await wait_until(is_calm, description="the last expensive scan")
        before = len(seen.of(JobCompleted))
        forbidden.clear()
        await seen.wait_for(JobCompleted, 2, limit_s=4)

    assert 1 == before
