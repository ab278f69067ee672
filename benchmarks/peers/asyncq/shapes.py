"""Tables that are hard to drain: a job's number -> the job. Those that are to run have the ids 0, 1, 2 ..."""

from __future__ import annotations

from collections.abc import Callable

from asyncq import JobSpec
from benchmarks.peers.asyncq.tasks import hold, noop, stranger

STUCK = 100_000
STRANGERS = 500_000
BUSY = ("busy 1", "busy 2")


def plain(number: int) -> JobSpec:
    """A job that may run at once."""
    return noop.job(number)


def serial(number: int) -> JobSpec:
    """All in one queue."""
    return noop.job(number).with_options(queue="one")


def in_queues(queues: int) -> Callable[[int], JobSpec]:
    """Distribute jobs evenly over so many queues."""
    return lambda number: noop.job(number).with_options(queue=f"queue {number % queues}")


def stuck(number: int) -> JobSpec:
    """One job in each of two queues that never ends, many behind these, then jobs without a queue."""
    if number < len(BUSY):
        return hold.job().with_options(queue=BUSY[number])
    number -= len(BUSY)
    if number < STUCK:
        return noop.job(number).with_options(queue=BUSY[number % len(BUSY)])
    return noop.job(number - STUCK)


def strangers(number: int) -> JobSpec:
    """Jobs of a task that the worker does not know, then jobs with a flag that it does not want, then jobs for it."""
    if number < STRANGERS:
        return stranger.job()
    number -= STRANGERS
    return noop.job(number).with_options(flags=["paused"]) if number < STRANGERS else noop.job(number - STRANGERS)


SHAPES: dict[str, Callable[[int], JobSpec]] = {
    "plain": plain,
    "serial": serial,
    "queues": in_queues(10_000),
    "few_queues": in_queues(10),
    "many_queues": in_queues(1_000_000),
    "stuck": stuck,
    "strangers": strangers,
}
