"""`asyncq add`: add a job."""

import argparse
import sys
from typing import Any, cast, get_args

import msgspec

from asyncq.cli.parsing import (
    JOB_KEY_MODES,
    Commands,
    Usage,
    add_command,
    ask,
    duration,
    expiry,
    instant,
    keep,
    positive,
)
from asyncq.client import Client
from asyncq.domain.adding import make_spec
from asyncq.domain.after import IfFailed
from asyncq.domain.job import OPTIONS, Added
from asyncq.domain.payload import DEFAULT_MAX_PAYLOAD
from asyncq.domain.time_limit import Timeout

PURPOSE = """\
Add a job, and print its id.

The payload is JSON; - reads it from the standard input. Options that are not
given have the defaults of asyncq. Those of the task's decorator are known only
to a program that imports the task.

With --job-key, --unique, --singleton or --idempotency-key the id may be that of
an earlier job; --json says so. If another job prevents the add (--unique with
on_conflict reject, the default), that is an error, and the exit code is 1."""

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
    parser = add_command(commands, "add", run, purpose=PURPOSE, examples=EXAMPLES)
    add = parser.add_argument
    add("task", metavar="TASK", help="the task's name")
    add("payload", metavar="PAYLOAD", nargs="?", default="{}", help="the payload as JSON (default: {})")
    add("--queue", metavar="NAME", help="the queue; its jobs run one after the other")
    when = parser.add_mutually_exclusive_group()
    when.add_argument("--run-at", metavar="TIME", type=instant, help="not before, such as 2030-01-31T04:00:00Z")
    when.add_argument(
        "--in", dest="delay", metavar="TIME", type=duration, help="not before this time has passed: 90s, 5m, 2h"
    )
    add("--max-attempts", metavar="N", type=int, help="attempts in all (default: 25)")
    add("--priority", metavar="N", type=int, help="lower first (default: 0)")
    add("--flag", metavar="FLAG", action="append", help="a name that a worker may forbid; may be repeated")
    add("--meta", metavar="JSON", help="an object that is stored with the job")
    add("--job-key", metavar="KEY", help="at most one waiting or running job has it; a waiting one is changed")
    add("--job-key-mode", choices=JOB_KEY_MODES, help="which fields of a waiting job are kept (default: replace)")
    add("--unique", metavar="JSON", help="a unique policy, as an object: which other jobs prevent this one")
    add("--singleton", action="store_true", default=None, help="at most one job of the task waits or runs")
    add("--subject", metavar="TEXT", help="with --singleton: at most one job for each subject")
    add("--force", action="store_true", default=None, help="add the job in spite of its policy")
    add("--rerun", action="store_true", default=None, help="if the other job runs, run it once more afterwards")
    add("--idempotency-key", metavar="KEY", help="a name of this request; repeated within a day, it adds nothing")
    add("--timeout", metavar="TIME", type=duration, help="the time limit of one attempt: 90s, 5m, 2h")
    add("--soft-timeout", metavar="TIME", type=duration, help="after this time its handler is asked to end")
    add("--expires", metavar="TIME", type=expiry, help="until when it may start, else it is cancelled: 5m, or a time")
    add("--deadline", metavar="TIME", type=expiry, help="until when all its attempts have to end")
    add("--keep", metavar="TIME", type=keep, help="how long it is kept after its end: 5m, 7d, or never")
    add("--after", metavar="ID", type=positive, action="append", help="a job that has to end first; may be repeated")
    add("--if-failed", choices=get_args(IfFailed), help="with --after: if one of these fails for good (default: wait)")
    add("--json", action="store_true", help="print one JSON object: id, outcome, existing_id, existing_state")


def run(options: argparse.Namespace) -> int:
    """Add a job; the exit code is 0 too if another job takes its place."""
    text = sys.stdin.buffer.read() if options.payload == "-" else options.payload
    given = {name: value for name, value in vars(options).items() if name in OPTIONS} | {
        "flags": options.flag,
        "meta": None if options.meta is None else _object("--meta", options.meta),
        "unique": None if options.unique is None else _object("--unique", options.unique),
    }
    if options.soft_timeout is not None:
        given["timeout"] = Timeout(soft=options.soft_timeout, hard=options.timeout)
    payload = _json("the payload", text)
    # Checked before a connection is opened: an invalid job needs none.
    spec = make_spec(options.task, payload, given, registry=None, strict=True, max_payload=DEFAULT_MAX_PAYLOAD)

    async def add(client: Client) -> Added:
        if options.delay is None:
            return await client.add_job(spec)
        return await client.add_job(spec, run_at=await client.admin.now() + options.delay)

    added = ask(options, add)
    print(msgspec.json.encode(added).decode() if options.json else added.id)
    return 0


def _json(what: str, text: str | bytes) -> msgspec.Raw:
    """Check JSON text and keep it as it is written: no number loses a digit."""
    try:
        data = text.encode() if isinstance(text, str) else text
        msgspec.json.decode(data)
    except UnicodeError as error:
        raise Usage(f"{what} is not valid UTF-8") from error
    except (msgspec.MsgspecError, RecursionError) as error:
        raise Usage(f"{what} is not valid JSON: {error}") from error
    return msgspec.Raw(data)


def _object(what: str, text: str) -> dict[str, Any]:
    value = msgspec.json.decode(_json(what, text))
    if not isinstance(value, dict):
        raise Usage(f"{what} must be a JSON object, got {text}")
    return cast("dict[str, Any]", value)
