"""Tasks whose handlers run in other processes, which import this module."""

import atexit
import logging
import os
import signal
import subprocess
import time
from pathlib import Path

import msgspec
from opentelemetry.trace import get_current_span

from asyncq import Discard, RetryAfter, Snooze, task


@task(run_in="process")
def who(word: str) -> dict[str, object]:
    """Return where it runs; print, log, and survive the signals that service managers send to all processes."""
    print(f"printed {word}")
    logging.getLogger("tests.process").info("logged %s", word, extra={"word": word, "odd": {1, 2}})
    os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGINT)
    return {"pid": os.getpid(), "word": word}


@task(run_in="process")
def span() -> str:
    """Log, and return the trace and the span that are active."""
    logging.getLogger("tests.process").info("logged")
    active = get_current_span().get_span_context()
    return f"{active.trace_id:032x} {active.span_id:016x}"


@task(run_in="process")
def fail(how: str) -> object:
    """Raise, or return what JSON cannot hold."""
    match how:
        case "value":
            raise ValueError("no such thing")
        case "discard":
            raise Discard("no use")
        case "retry":
            raise RetryAfter(600, "busy")
        case "refused":
            raise RetryAfter(600, "429", partition=True)
        case "snooze":
            raise Snooze(600)
        case "group":
            raise ExceptionGroup("two", [Discard("of a group"), ValueError("another one")])
        case "exit":
            raise SystemExit(3)
        case _:
            return object()


@task(run_in="process", max_attempts=1)
def die(how: str) -> None:
    """End the process, and not by an exception."""
    if how == "exit":
        os._exit(3)
    if how == "close":
        os.closerange(3, 256)  # as programs do that become a daemon
        return
    os.kill(os.getpid(), signal.SIGKILL)


@task(run_in="process", max_attempts=1)
def fill(mib: int) -> int:
    """Use memory, and keep it; return the id of the process, or never return."""
    kept.append(bytearray(os.urandom(1024) * 1024 * mib))
    if mib > 200:  # more than the limit of the test
        time.sleep(600)
    return os.getpid()


kept: list[bytearray] = []


@task(run_in="process", timeout=3600)
def hang(place: str) -> None:
    """Write the ids of this process and of a program that it started, then never return."""
    program = subprocess.Popen(["sleep", "600"])
    found = Path(place)
    found.with_suffix(".new").write_text(f"{os.getpid()} {program.pid}")
    found.with_suffix(".new").rename(found)
    while True:
        time.sleep(60)


@task(run_in="process")
def leave(place: str) -> None:
    """Write a file at the end of the process."""
    atexit.register(Path(place).write_text, "bye")


@task(run_in="process", keep="1 hour")
def split(word: str) -> str:
    """Fork two children, which log, and end as programs of `os.fork` do: one returns, one raises."""
    for ending in ("returns", "raises"):
        if (child := os.fork()) == 0:
            logging.getLogger("tests.process").warning("logged by the child that %s", ending)
            if ending == "raises":
                raise ValueError("in a child")
            return "the child"
        os.waitpid(child, 0)
    return word


class Size(msgspec.Struct):
    """A result."""

    width: int
    height: int


@task(run_in="process", keep="1 hour")
def measure(width: int) -> Size:
    """Return a struct."""
    return Size(width, 2)


@task(run_in="process", keep="1 hour")
def measure_badly() -> object:
    """Return what JSON cannot hold."""
    return object()


class Heavy:
    """A class with a task."""

    @task(name="heavy", run_in="process")
    @staticmethod
    def compute(number: int) -> int:
        """Square a number."""
        return number * number


compute = Heavy.compute
