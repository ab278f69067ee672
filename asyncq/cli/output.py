"""The standard output: its disk may be full, and its encoding may lack characters."""

import codecs
import errno
import json
import os
import sys

from asyncq.cli.failures import FAILED

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


def print_anything() -> None:
    """Write characters that the encoding of the standard output lacks as escapes."""
    codecs.register_error("asyncq.escaped", _escaped)
    # The caller of main() may have replaced sys.stdout by any object.
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="asyncq.escaped")


def _escaped(error: UnicodeError) -> tuple[str, int]:
    """Escape as JSON does: output of --json stays valid JSON."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


def is_of_output(error: OSError) -> bool:
    """Whether writing the output failed: errors of files have a name, and network errors have other numbers."""
    return error.errno in _FULL and error.filename is None


def drop_output() -> int:
    """Drop unwritten output, else the interpreter reports an error when it flushes at the end. Returns exit code."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return FAILED
