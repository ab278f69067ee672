"""One line on stderr for a program that has not set up logging, where a worker would otherwise log nothing."""

import logging
import sys
from contextlib import suppress

HINT = (
    "asyncq: a worker runs, and logging is not set up: only its warnings are shown; "
    "for all: logging.basicConfig(level=logging.INFO), "
    'for silence: logging.getLogger("asyncq").addHandler(logging.NullHandler())\n'
)

_was_given = False


def hint_once() -> None:
    """Explain on stderr how to set up logging, if no handler exists; once in a process."""
    global _was_given
    if _was_given or logging.getLogger("asyncq").hasHandlers():
        return
    _was_given = True
    with suppress(AttributeError, OSError, ValueError):  # There may be no stderr, or a closed one.
        sys.stderr.write(HINT)
