"""`asyncq dashboard`: serve the dashboard by itself, by default only to this machine."""

import argparse
import os
import secrets
import signal
import sys
from contextlib import suppress

from asyncq.cli import worker_group
from asyncq.cli.finish import finish
from asyncq.cli.parsing import Commands, Usage, add_command, dsn_of
from asyncq.domain.errors import ConfigurationError

DEFAULT_PORT = 8080
TOKEN = "ASYNCQ_DASHBOARD_TOKEN"
LOCAL = ("127.0.0.1", "::1", "localhost")

PURPOSE = """\
Serve the dashboard: jobs, workers, recurring items, limits.

It prints an address with a token that is valid until the command ends, by
SIGTERM or Ctrl-C. To serve other machines give --host, and a token of 32
characters or more in the variable ASYNCQ_DASHBOARD_TOKEN; put a proxy with TLS
before it."""

EXAMPLES = """\
  asyncq dashboard
  asyncq dashboard --read-only --hide-payloads
  ASYNCQ_DASHBOARD_TOKEN=... asyncq dashboard --host 0.0.0.0 --port 8080
"""


def add_parser(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = add_command(commands, "dashboard", _run, purpose=PURPOSE, examples=EXAMPLES)
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, default=DEFAULT_PORT, help="the port; 0 is any free one (default: 8080)")
    parser.add_argument("--read-only", action="store_true", help="allow no changes")
    parser.add_argument("--hide-payloads", action="store_true", help="show no payloads, results and meta")
    parser.take_settings(prefix="dashboard-")
    parser.add_argument("--parent", type=int, help=argparse.SUPPRESS)


def _run(options: argparse.Namespace) -> int:
    token = os.environ.get(TOKEN) or None
    if token is None and options.host not in LOCAL:
        raise Usage(f"--host {options.host} serves other machines: set {TOKEN} to a token of 32 characters or more")
    try:
        from asyncq.web.standalone import serve
    except ModuleNotFoundError as error:
        raise ConfigurationError(f"{error.name} is missing: pip install 'asyncq[dashboard]'") from error
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # Until uvicorn has its handlers.
    with suppress(KeyboardInterrupt):
        if options.parent is not None:
            worker_group.follow(options.parent)
            worker_group.unblock_signals()
        finish(
            serve(
                dsn_of(options),
                schema=options.schema,
                host=options.host,
                port=options.port,
                token=token or secrets.token_urlsafe(32),
                read_only=options.read_only,
                hide_payloads=options.hide_payloads,
                ready=_print_address,
            )
        )
    return 0


def _print_address(address: str) -> None:
    print(f"The dashboard is at {address}", file=sys.stderr, flush=True)
