"""`asyncq stats`: how runs ended over time, by task."""

import argparse
from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from asyncq.cli.job_texts import aligned, print_lines
from asyncq.cli.parsing import Commands, add_command, ask, duration, expiry
from asyncq.client import Client
from asyncq.domain.finding import TaskStats, quantile
from asyncq.domain.sentence import printable

PURPOSE = """\
Print how many runs of each task ended, and how long they took and waited.

By default it is one line for each task, over the last hour. With --step there
is a line for each step and task. p50 and p95 are exact within a factor of 2.
Workers write these numbers every ten seconds, unless they run with --no-stats."""

EXAMPLES = """\
  asyncq stats --since 1d
  asyncq stats --task send_email --step 5m
"""

HEADINGS = ("completed", "retried", "discarded", "cancelled", "snoozed", "took p50", "p95", "waited p50", "p95")
ALL = timedelta(days=30)  # one step for all


def add_parser(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = add_command(commands, "stats", _stats, purpose=PURPOSE, examples=EXAMPLES)
    parser.add_argument(
        "--since", metavar="TIME", type=expiry, default=timedelta(hours=1), help="1h ago (default), or a time"
    )
    parser.add_argument("--step", metavar="TIME", type=duration, help="the length of a step (default: all is one)")
    parser.add_argument("--task", metavar="NAME", help="only this task")
    parser.add_argument("--json", action="store_true", help="print one JSON object a line")


def _stats(options: argparse.Namespace) -> None:
    async def read(client: Client) -> list[TaskStats]:
        since: datetime | timedelta = options.since
        if isinstance(since, timedelta):
            since = await client.admin.now() - since
        return await client.admin.stats(since, step=options.step or ALL, task=options.task)

    found = ask(options, read)
    if options.json:
        print_lines([msgspec.json.encode(one).decode() for one in found])
        return
    print_lines(table(found, with_time=options.step is not None))


def table(found: Sequence[TaskStats], *, with_time: bool) -> list[str]:
    """A line of headings, and one line for each step and task."""
    rows: list[tuple[str, ...]] = [("at", "task", *HEADINGS)]
    rows += [(one.at.isoformat(" ", "seconds"), printable(one.task or ""), *_figures(one)) for one in found]
    return aligned(rows if with_time else [row[1:] for row in rows])


def _figures(one: TaskStats) -> tuple[str, ...]:
    ends = (one.completed, one.retried, one.discarded, one.cancelled, one.snoozed)
    times = [quantile(buckets, part) for buckets in (one.took, one.waited) for part in (0.5, 0.95)]
    return (*(f"{end:,}" for end in ends), *("" if time is None else f"{time:g} s" for time in times))
