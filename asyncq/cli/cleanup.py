"""`asyncq cleanup`: remove data that is no longer needed."""

import argparse

import msgspec

from asyncq.cli.job_texts import aligned, print_lines
from asyncq.cli.parsing import Commands, add_command, ask

PURPOSE = """\
Remove data that is no longer needed; safe while adds and workers run.

GC_TASK_IDENTIFIERS      names of tasks that no job and no worker uses
GC_JOB_QUEUES            nothing: a queue leaves no rows behind
DELETE_PERMAFAILED_JOBS  discarded jobs

Without a word the first two are done. It prints how many rows of each were
removed. A name that became unused stays while a transaction is open that began
before; the next cleanup removes it."""

EXAMPLES = """\
  asyncq cleanup
  asyncq cleanup --keep send_email --keep rollup
  asyncq cleanup DELETE_PERMAFAILED_JOBS
"""


def add_parser(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = add_command(commands, "cleanup", run, purpose=PURPOSE, examples=EXAMPLES)
    parser.add_argument("what", metavar="WHAT", nargs="*", help="what to remove: the words above")
    parser.add_argument("--keep", metavar="TASK", action="append", help="keep the name of this task; may be repeated")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(options: argparse.Namespace) -> int:
    """Run the cleanup; an unknown word removes nothing."""
    removed = ask(options, lambda client: client.admin.cleanup(*options.what, task_identifiers_to_keep=options.keep))
    rows = [(what, str(count)) for what, count in removed.items()]
    print_lines([msgspec.json.encode(removed).decode()] if options.json else aligned(rows))
    return 0
