"""`asyncq queues`: how many jobs the fullest queues have."""

import argparse
from collections.abc import Sequence

import msgspec

from asyncq.cli.job_texts import aligned, print_lines
from asyncq.cli.parsing import Commands, add_command, ask, positive
from asyncq.domain.finding import Depth
from asyncq.domain.sentence import printable

PURPOSE = """\
Print how many jobs the fullest queues have, a line for each.

Large tables are estimated from a sample: such figures are marked with "about"."""

HEADINGS = ("due", "waiting", "running", "failed")


def add_parser(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = add_command(commands, "queues", _queues, purpose=PURPOSE, examples="  asyncq queues --most 20\n")
    parser.add_argument("--most", metavar="N", type=positive, default=50, help="how many at most (default: 50)")
    parser.add_argument("--json", action="store_true", help="print one JSON object a line: a queue")


def _queues(options: argparse.Namespace) -> None:
    depths = ask(options, lambda client: client.admin.depths_by(queues=options.most))
    found = [depth for depth in depths if depth.queue is not None]
    if options.json:
        print_lines([msgspec.json.encode(depth).decode() for depth in found])
        return
    rows = [("queue", *HEADINGS), *((printable(depth.queue or ""), *figures(depth)) for depth in found)]
    print_lines(aligned(rows))


def figures(depth: Depth) -> Sequence[str]:
    """The numbers of a task or queue, in the order of the headings."""
    about = "" if depth.is_exact else "about "
    due, waiting, failed = (f"{about}{jobs:,}" for jobs in (depth.due, depth.waiting, depth.failed))
    return due, waiting, f"{depth.running:,}", failed
