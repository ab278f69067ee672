"""A task whose module cannot be imported in another process."""

import sys

from asyncq import task

if "pytest" not in sys.modules:
    raise ImportError("no library here")


@task(run_in="process", timeout=0.3)
def never() -> None:
    """Is never called."""
