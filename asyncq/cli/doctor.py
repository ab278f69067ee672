"""`asyncq doctor`: check the store, and repair what can be repaired."""

import argparse
import sys

import msgspec

from asyncq.cli.parsing import Commands, add_command, ask
from asyncq.domain.sentence import printable

PURPOSE = """\
Check that the store is consistent, and repair what can be repaired.

It checks the server, the workers, and the laws that hold while no transaction
is open. It prints a line for each check: "ok", "warning" (somebody should look
at it), "problem" (something is broken; the exit code is 1). It reads all jobs,
which takes about a second for each million.

--repair first does what live workers do by themselves: it returns the jobs of
workers that are gone, removes unused key locks, and corrects what queues and
the keys of limits count as running."""

EXAMPLES = """\
  asyncq doctor
  asyncq doctor --repair
  asyncq doctor --json | jq -r '.findings[] | select(.level == "problem").said'
"""


def add_parser(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = add_command(commands, "doctor", run, purpose=PURPOSE, examples=EXAMPLES)
    parser.add_argument("--repair", action="store_true", help="first return orphan claims, and remove unused key locks")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(options: argparse.Namespace) -> int:
    """Check the store, and print the findings; returns 1 if something is broken."""
    if options.repair:
        repaired = ask(options, lambda client: client.admin.repair())
        jobs = f"{len(repaired.job_ids)} jobs of workers that are gone were returned"
        print(
            f"asyncq: {jobs}, {repaired.key_locks} key locks removed, {repaired.partitions} keys and queues corrected",
            file=sys.stderr,
        )
    found = ask(options, lambda client: client.admin.checkup())
    if options.json:
        print(msgspec.json.encode({"healthy": found.is_healthy, "findings": found.findings}).decode())
    else:
        for finding in found.findings:
            print(f"{finding.level:<8} {finding.check:<13} {printable(finding.said)}")
    return 0 if found.is_healthy else 1
