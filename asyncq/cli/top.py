"""`asyncq top`: what goes on, drawn again every two seconds."""

import argparse
import asyncio
import shutil
import sys
from datetime import timedelta

from asyncq.cli.failures import INTERRUPTED
from asyncq.cli.job_texts import aligned, print_lines
from asyncq.cli.parsing import Commands, add_command, ask
from asyncq.cli.stats import table
from asyncq.client import Client
from asyncq.domain.administration import Counts
from asyncq.domain.errors import StoreError
from asyncq.domain.finding import NOT_ENDED, RunningJob
from asyncq.domain.sentence import printable
from asyncq.store.failures import is_transient

PURPOSE = """\
Print what goes on: jobs by state, workers, what runs, what fails, and the tasks
of the last five minutes. It is drawn again every two seconds, until Ctrl-C, and
goes on after an outage of the database.

Without a terminal, and with --once, it is printed once."""

EVERY_S = 2.0
CLEAR = "\x1b[H\x1b[2J"
MOST = 8  # lines of each list


def add_parser(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = add_command(commands, "top", _top, purpose=PURPOSE, examples="  asyncq top\n  asyncq top --once\n")
    parser.add_argument("--once", action="store_true", help="print once, and end")


def _top(options: argparse.Namespace) -> int:
    if options.once or not sys.stdout.isatty():
        print_lines(ask(options, screen))
        return 0
    try:
        ask(options, _draw)
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


async def _draw(client: Client) -> None:
    seen: list[str] = []
    while True:
        try:
            lines = seen = await screen(client)
        except StoreError as error:
            if not is_transient(error):
                raise
            lines = [f"trying again: {printable(str(error))}", "", *seen]
        width, height = shutil.get_terminal_size()
        print(CLEAR + "\n".join(line[:width] for line in lines[: height - 1]), flush=True)
        await asyncio.sleep(EVERY_S)


async def screen(client: Client) -> list[str]:
    """Read what goes on; returns the lines to draw."""
    admin = client.admin
    now, counts, oldest = await admin.now(), await admin.counts(), await admin.oldest_due()
    workers = [worker for worker in await admin.list_workers() if worker.state in ("live", "doubted")]
    running, failing = await admin.running(most=MOST), await admin.failures(1000)
    stats = await admin.stats(now - timedelta(minutes=5))
    slots, busy = sum(worker.concurrency or 0 for worker in workers), sum(worker.running for worker in workers)
    many = f"{len(workers)} worker{'' if len(workers) == 1 else 's'}"
    waited = "no job is due" if oldest is None else f"oldest due {oldest:,.1f} s"
    lines = [
        f"{now.isoformat(' ', 'seconds')}  {many}, {busy:,} of {slots:,} slots busy, {waited}",
        _states(counts),
        "",
        *table(stats[-MOST:], with_time=True),
        "",
        *_running(running),
    ]
    if failing:
        rows = [("failed", "task", "error")]
        rows += [(f"{one.jobs:,}", printable(one.task), printable(one.first_line or "")) for one in failing[:MOST]]
        lines += ["", *aligned(rows)]
    return lines


def _states(counts: Counts) -> str:
    said = {state: format(getattr(counts, state), ",") for state in NOT_ENDED}
    return "  ".join(f"{state} {'about ' if state in counts.estimated else ''}{jobs}" for state, jobs in said.items())


def _running(jobs: list[RunningJob]) -> list[str]:
    rows = [("running", "task", "for", "worker", "attempt")]
    rows += [
        (
            str(job.id),
            printable(job.task),
            f"{job.running_s:.1f} s",
            str(job.worker_id),
            str(job.attempt),
        )
        for job in jobs
    ]
    return aligned(rows)
