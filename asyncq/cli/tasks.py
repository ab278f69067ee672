"""`asyncq tasks`: how many jobs each task has, and how many workers know it."""

import argparse
from collections import Counter

import msgspec

from asyncq.cli.job_texts import aligned, print_lines
from asyncq.cli.parsing import Commands, add_command, ask
from asyncq.cli.queues import HEADINGS, figures
from asyncq.client import Client
from asyncq.domain.finding import Depth
from asyncq.domain.sentence import printable

PURPOSE = """\
Print each task that has jobs or workers, a line for each.

Large tables are estimated from a sample: such figures are marked with "about".
A task that no live worker knows has 0 workers: its jobs do not run."""


def add_parser(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = add_command(commands, "tasks", _tasks, purpose=PURPOSE, examples="  asyncq tasks\n")
    parser.add_argument("--json", action="store_true", help="print one JSON object a line: a task")


def _tasks(options: argparse.Namespace) -> None:
    depths, workers = ask(options, _read)
    if options.json:
        print_lines(
            [
                msgspec.json.encode(msgspec.structs.asdict(depth) | {"workers": workers[depth.task]}).decode()
                for depth in depths
            ]
        )
        return
    rows = [("task", *HEADINGS, "workers")]
    rows += [(printable(depth.task or ""), *figures(depth), str(workers[depth.task])) for depth in depths]
    print_lines(aligned(rows))


async def _read(client: Client) -> tuple[list[Depth], Counter[str | None]]:
    """The tasks in the order of their names, and how many live workers know each."""
    known = Counter[str | None]()
    for worker in await client.admin.list_workers():
        if worker.state in ("live", "doubted"):
            known.update(worker.tasks)
    found = await client.admin.depths_by(queues=0)
    idle = {name for name in known if name is not None} - {depth.task for depth in found}
    found += [Depth(task=name, queue=None, due=0, waiting=0, running=0, failed=0, is_exact=True) for name in idle]
    return sorted(found, key=lambda depth: depth.task or ""), known
