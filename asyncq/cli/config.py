"""`asyncq config`: the values of all settings, and where each one is from."""

import argparse
import json
import os
import re
from datetime import timedelta

from asyncq.cli.parsing import Commands, add_command, known_settings, setting
from asyncq.cli.settings import DATABASE, OF_DATABASE, Found

PURPOSE = """\
Show the settings, and where each one is from.

An option that is not given has the value of the variable ASYNCQ_NAME, then that
of name in the table [tool.asyncq] of the nearest pyproject.toml: of this folder
or one above it. --log-level is ASYNCQ_LOG_LEVEL and log-level there. Options of
the dashboard begin with dashboard: ASYNCQ_DASHBOARD_PORT. A list in a variable
has commas. A password in that file is refused, and none is shown."""

EXAMPLES = """\
  asyncq config
  ASYNCQ_CONCURRENCY=20 asyncq config --json
"""

_SECRET = re.compile(r"(//[^/?#@]*:)[^?#]*@|((?:ssl)?password\s*=\s*)('(?:[^'\\]|\\.)*'|[^\s&]*)", re.IGNORECASE)


def add_parser(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = add_command(commands, "config", run, purpose=PURPOSE, examples=EXAMPLES)
    parser.add_argument("--json", action="store_true", help="print one JSON object: a value and a source by each name")


def run(options: argparse.Namespace) -> int:
    """Print them."""
    found = {name: _shown(name, options) for name in sorted(known_settings())}
    if options.json:
        print(json.dumps({name: {"value": one.value, "source": one.source} for name, one in found.items()}))
        return 0
    rows = [(name, "-" if one.value is None else str(one.value), one.source) for name, one in found.items()]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    for name, value, source in rows:
        print(f"{name:{widths[0]}}  {value:{widths[1]}}  {source}")
    return 0


def _shown(name: str, options: argparse.Namespace) -> Found:
    dest = name.replace("-", "_")
    if dest in ("dsn", "schema", "log_level") and dest not in options.sources:
        value, source = getattr(options, dest), f"--{name}"
    else:
        value, source = setting(name)
    if source in DATABASE:
        value = os.environ[source]
    if name in OF_DATABASE and value is not None:
        value = _SECRET.sub(lambda match: f"{match[1]}***@" if match[1] else f"{match[2]}***", value)
    return Found(f"{value.total_seconds():g}s" if isinstance(value, timedelta) else value, source)
