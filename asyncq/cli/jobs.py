"""`asyncq jobs`: look at jobs."""

from __future__ import annotations

import argparse
import asyncio
from typing import TYPE_CHECKING

import msgspec

from asyncq.cli.parsing import Commands, Usage, add_command, dsn_of, positive

if TYPE_CHECKING:
    from asyncq.domain.job import Job

PURPOSE = """\
Print what is known of a job: its state, its attempts, its last error.

A job that has ended well is removed, and then there is no such job any more:
the exit code is 1."""

EXAMPLES = """\
  asyncq jobs show 42
  asyncq jobs show 42 --json | jq -r .state
"""


def add_parser(commands: Commands) -> None:
    """Add the command to the parser."""
    jobs = commands.add_parser(
        "jobs", help="Look at jobs.", description="Look at jobs.", epilog=f"examples:\n{EXAMPLES}"
    )
    below = jobs.add_subparsers(dest="what", metavar="COMMAND", title="commands")
    show = add_command(below, "show", purpose=PURPOSE, examples=EXAMPLES)
    show.add_argument("id", metavar="ID", type=positive, help="the job's id")
    show.add_argument("--json", action="store_true", help="print one JSON object, with the payload in it")


def run(options: argparse.Namespace) -> int:
    """Show a job.

    Args:
        options: The command line.

    Returns:
        0.

    Raises:
        Usage: It was not said what to do.
    """
    if options.what is None:
        raise Usage("what about jobs? See `asyncq jobs --help`")
    job = asyncio.run(_job(dsn_of(options), options.schema, options.id))
    print(msgspec.json.encode(_document(job)).decode() if options.json else _text(job))
    return 0


async def _job(dsn: str, schema: str, job_id: int) -> Job:
    from asyncq.client import Client

    async with Client(dsn, schema=schema, pool_size=1) as client:
        return await client.get_job(job_id)


def _document(job: Job) -> dict[str, object]:
    """All fields of the job; the payload as the JSON that it is, every digit kept."""
    return {**msgspec.structs.asdict(job), "payload": msgspec.Raw(job.payload.encode())}


def _text(job: Job) -> str:
    shown = {
        "id": job.id,
        "task": job.task,
        "state": job.state,
        "queue": job.queue,
        "priority": job.priority,
        "run at": job.run_at.isoformat(),
        "attempts": f"{job.attempts} of {job.max_attempts}",
        "flags": ", ".join(job.flags) or None,
        "created at": job.created_at.isoformat(),
        "updated at": job.updated_at.isoformat(),
        "claimed at": job.locked_at and job.locked_at.isoformat(),
        "claimed by": job.locked_by and f"worker {job.locked_by}",
        "payload": job.payload,
        "meta": None if job.meta is None else msgspec.json.encode(job.meta).decode(),
        "last error": job.last_error,
    }
    return "\n".join(f"{name + ':':<12}{printable(str(value))}" for name, value in shown.items() if value is not None)


def printable(text: str) -> str:
    """The text without what a terminal would obey: a job's error may hold anything."""
    return "".join(char if char.isprintable() or char in "\n\t" else ascii(char)[1:-1] for char in text)
