"""The standard output: it may be full, or of an encoding that lacks what is to be printed."""

from __future__ import annotations

import codecs
import errno
import json
import os
import sys

from asyncq.cli.failures import FAILED

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


def print_anything() -> None:
    """Let what the encoding of the standard output lacks be written as an escape."""
    codecs.register_error("asyncq.escaped", _escaped)
    # Whoever calls us may have put anything in its place.
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="asyncq.escaped")


def _escaped(error: UnicodeError) -> tuple[str, int]:
    """Escapes that JSON has too: what is printed with --json stays JSON."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


def is_of_output(error: OSError) -> bool:
    """Whether it says that the output cannot be written: errors of files name them, those of the network are others."""
    return error.errno in _FULL and error.filename is None


def drop_output() -> int:
    """Drop what could not be written: the interpreter would complain when it flushes at the end.

    Returns:
        The exit code.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return FAILED
