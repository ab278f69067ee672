"""Errors of commands: their texts, as a sentence or as JSON, and their exit codes."""

import json
import sys
import traceback

from asyncq.cli.parsing import Usage
from asyncq.domain.errors import AsyncqError, ConfigurationError, InvalidJob, StoreError, UnsupportedServer

FAILED = 1
USAGE = 2
DATABASE = 3
INTERRUPTED = 130


def exit_code(error: AsyncqError | Usage) -> int:
    """The exit code: 2 for an error in the command or in the code, 3 for the database, 1 for any other error."""
    if isinstance(error, StoreError | UnsupportedServer):
        return DATABASE
    return USAGE if isinstance(error, Usage | ConfigurationError | InvalidJob) else FAILED


def report(error: AsyncqError | Usage, *, as_json: bool, with_traceback: bool) -> int:
    """Print an error on the standard error, and return the exit code.

    As JSON it is `{"error": {"type", "message", "code", "field"}}`. `code` is the code of the broken rule or the
    SQLSTATE, `field` the argument that broke the rule; both may be null.
    """
    if with_traceback and not isinstance(error, Usage):
        traceback.print_exception(error)
    if as_json:
        code = getattr(error, "code", None) or getattr(error, "sqlstate", None)
        field = getattr(error, "field", None)
        said = {"type": type(error).__name__, "message": str(error), "code": code, "field": field}
        print(json.dumps({"error": said}, ensure_ascii=False), file=sys.stderr)
    elif isinstance(error, Usage):
        print(f"{error.usage}{error.program}: {error}", file=sys.stderr)
    else:
        print(f"asyncq: {error}", file=sys.stderr)
    return exit_code(error)
