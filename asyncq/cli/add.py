"""`asyncq add`: add a job."""

from __future__ import annotations

import argparse
import sys
from typing import Any, cast

import msgspec

from asyncq.cli.asking import ask
from asyncq.cli.parsing import JOB_KEY_MODES, Commands, Usage, add_command, duration, instant
from asyncq.client import Client
from asyncq.domain.adding import make_spec
from asyncq.domain.job import Added
from asyncq.domain.payload import DEFAULT_MAX_PAYLOAD

PLAIN = (
    "queue",
    "run_at",
    "max_attempts",
    "priority",
    "job_key",
    "job_key_mode",
    "singleton",
    "subject",
    "force",
    "rerun",
    "idempotency_key",
)

PURPOSE = """\
Add a job, and print its id.

The payload is JSON; - reads it from the standard input. What is not given takes
the defaults of asyncq: those of the task's decorator are known only to the
program that holds the task.

With --job-key, --unique, --singleton or --idempotency-key the id may be that of
a job that was there before; --json says so. One that another job bars (--unique
with on_conflict reject, the default) is an error, and the exit code is 1."""

EXAMPLES = """\
  asyncq add send_email '{"to": "a@b.c"}'
  asyncq add rollup '{"day": "2030-01-31"}' --in 5m --queue reports
  asyncq add rollup --run-at 2030-01-31T04:00:00Z --max-attempts 3
  asyncq add import_file - < payload.json
  asyncq add reindex '{"shop": 7}' --job-key reindex-7 --in 30s   one in 30 s
  asyncq add bill '{"order": 7}' --idempotency-key order-7        safe to repeat
  asyncq add sync --unique '{"keys": ["args"], "on_conflict": "ignore"}'
"""


def add_parser(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = add_command(commands, "add", purpose=PURPOSE, examples=EXAMPLES)
    add = parser.add_argument
    add("task", metavar="TASK", help="the task's name")
    add("payload", metavar="PAYLOAD", nargs="?", default="{}", help="the payload as JSON (default: {})")
    add("--queue", metavar="NAME", help="the queue that runs its jobs one after the other")
    when = parser.add_mutually_exclusive_group()
    when.add_argument("--run-at", metavar="TIME", type=instant, help="not before, such as 2030-01-31T04:00:00Z")
    when.add_argument(
        "--in", dest="after", metavar="TIME", type=duration, help="not before this has passed: 90s, 5m, 2h"
    )
    add("--max-attempts", metavar="N", type=int, help="attempts in all (default: 25)")
    add("--priority", metavar="N", type=int, help="lower first (default: 0)")
    add("--flag", metavar="FLAG", action="append", help="a name that a worker may forbid; may be repeated")
    add("--meta", metavar="JSON", help="an object that goes with the job")
    add("--job-key", metavar="KEY", help="at most one job that waits or runs has it; a waiting one is changed")
    add("--job-key-mode", choices=JOB_KEY_MODES, help="what a waiting job with the key keeps (default: replace)")
    add("--unique", metavar="JSON", help="which jobs may not exist beside it: a unique policy, as an object")
    add("--singleton", action="store_true", default=None, help="at most one job of the task waits or runs")
    add("--subject", metavar="TEXT", help="what a singleton is the only one for")
    add("--force", action="store_true", default=None, help="add it whatever its policy says")
    add("--rerun", action="store_true", default=None, help="if the other job runs, let it run once more after that")
    add("--idempotency-key", metavar="KEY", help="a name of this request: made again within a day, it adds nothing")
    add("--json", action="store_true", help="print one JSON object: id, outcome, existing_id, existing_state")


def run(options: argparse.Namespace) -> int:
    """Add a job.

    Args:
        options: The command line.

    Returns:
        0: it is added, or another job stands for it.

    Raises:
        DuplicateJob: Its unique policy rejects it.
    """
    text = sys.stdin.buffer.read() if options.payload == "-" else options.payload
    given = {name: getattr(options, name) for name in PLAIN} | {
        "flags": options.flag,
        "meta": None if options.meta is None else _object("--meta", options.meta),
        "unique": None if options.unique is None else _object("--unique", options.unique),
    }
    payload = _json("the payload", text)
    # Checked first: a job that breaks a rule needs no connection.
    spec = make_spec(options.task, payload, given, registry=None, strict=True, max_payload=DEFAULT_MAX_PAYLOAD)

    async def add(client: Client) -> Added:
        if options.after is None:
            return await client.add_job(spec)
        return await client.add_job(spec, run_at=await client.admin.now() + options.after)

    added = ask(options, add)
    print(msgspec.json.encode(added).decode() if options.json else added.id)
    return 0


def _json(what: str, text: str | bytes) -> msgspec.Raw:
    """JSON text that was checked and is kept as it is written: no number loses a digit."""
    try:
        data = text.encode() if isinstance(text, str) else text
        decoded: Any = msgspec.json.decode(data)
    except UnicodeError as error:
        raise Usage(f"{what} is no valid UTF-8") from error
    except (msgspec.MsgspecError, RecursionError) as error:
        raise Usage(f"{what} is no JSON: {error}") from error
    del decoded
    return msgspec.Raw(data)


def _object(what: str, text: str) -> dict[str, Any]:
    value = msgspec.json.decode(_json(what, text))
    if not isinstance(value, dict):
        raise Usage(f"{what} must be a JSON object, got {text}")
    return cast("dict[str, Any]", value)
