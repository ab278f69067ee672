"""The course of the demo: a place, a schema, workers, jobs; wait until all are done, report, leave nothing behind."""

from __future__ import annotations

import platform
import time
from datetime import timedelta

import anyio
import msgspec

from asyncq import Client
from examples.demo.crew import Crew, DemoFailed, Orders, crew
from examples.demo.files import STDLIB, python_files
from examples.demo.place import Place, place
from examples.demo.report import Report, read_report
from examples.demo.screen import Screen
from examples.demo.tables import Progress, Tables, tables
from examples.demo.tasks import STUMBLES, TASKS, URGENT_FILE, count_file, keep_appointment, stumble

FUTURE = timedelta(seconds=2)
URGENT = 20
LOOK_S = 0.1
STALLED_S = 60.0


class Options(msgspec.Struct, frozen=True):
    """The options of the command line.

    Attributes:
        dsn: The server to use; None starts a throw-away one.
        workers: The number of worker processes.
        concurrency: How many jobs each runs at once.
        limit: The highest number of files; None for all.
    """

    dsn: str | None
    workers: int
    concurrency: int
    limit: int | None


async def play(options: Options, screen: Screen) -> Report:
    """Run the demo.

    Args:
        options: The options of the command line.
        screen: Shows the progress.

    Returns:
        The report; by then everything is removed.

    Raises:
        AsyncqError: The demo failed.

    If cancelled, it also leaves nothing behind, which takes a few seconds at most.
    """
    files = python_files()[: options.limit]
    if not files:
        raise DemoFailed(f"{STDLIB} has no Python files, and should be the standard library")
    python = platform.python_version()
    screen.say(f"asyncq demo: one job per file of Python {python}'s standard library, {len(files):,} files")
    screen.say()
    async with place(options.dsn) as here:
        screen.say(f"server    {here.title}")
        async with crew(options.workers, Orders(here, options.concurrency)) as workers, tables(here, files) as own:
            await _install(here, screen)
            workers.begin()
            screen.say(f"workers   {options.workers} processes, {options.concurrency} jobs at once in each")
            urgent = await _add_jobs(here, own, files, screen)
            await _watch(own, workers, screen, len(files))
            report = await read_report(own, here.title, urgent)
    return report


async def _install(here: Place, screen: Screen) -> None:
    done = await Client(here.dsn, schema=here.schema).migrate()
    screen.say(f"schema    {here.schema}, made by {len(done.applied)} migrations, dropped at the end")


async def _add_jobs(here: Place, own: Tables, files: list[str], screen: Screen) -> list[str]:
    """Make the tables and add all jobs in one transaction; returns the files that have priority."""
    urgent = files[-min(URGENT, max(1, len(files) // 4)) :]
    started_at = time.perf_counter()
    async with Client(here.dsn, schema=here.schema, tasks=TASKS) as client, own.connection.transaction():
        await own.make()
        jobs = [
            *(count_file.job(file) for file in files[: -len(urgent)]),
            *(count_file.job(file).with_options(priority=URGENT_FILE) for file in urgent),
            stumble.job(),
            keep_appointment.job().with_options(run_at=await own.in_future(FUTURE)),
        ]
        await client.add_jobs(jobs, connection=own.connection)
    screen.say(f"jobs      {len(jobs):,} added in one transaction, in {time.perf_counter() - started_at:.2f} s")
    screen.say(f"          {len(files):,} count a file each; the {len(urgent)} added last have priority")
    screen.say("          each package's last file adds one to `tally`, a queue run in series")
    screen.say(f"          1 fails twice and is retried, 1 is due in {FUTURE.total_seconds():g} s")
    screen.say()
    return urgent


async def _watch(own: Tables, workers: Crew, screen: Screen, files: int) -> None:
    """Read the progress now and then, until all jobs are done."""
    before, moved_at = Progress(), time.monotonic()
    while not own.is_end(before):
        await anyio.sleep(LOOK_S)
        workers.check()
        now = await own.progress()
        if now.failed is not None:
            raise DemoFailed(f"a job was discarded: {now.failed}")
        if now != before:
            before, moved_at = now, time.monotonic()
        if time.monotonic() - moved_at > STALLED_S:
            raise DemoFailed(f"nothing has happened for {STALLED_S:.0f} s: {_words(now, files)}")
        screen.show(now.files, files, _words(now, files))
    screen.clear()
    screen.say()


def _words(now: Progress, files: int) -> str:
    future = "done" if now.appointments else "waits"
    tries = f"try {now.attempts} of {STUMBLES + 1}"
    return f"{now.files:,} of {files:,} files, {now.tallies} tallies, {tries}, future {future}"
