"""A task whose module takes longer to import, in another process, than its handler may run."""

import sys
import time

from asyncq import task

if "pytest" not in sys.modules:
    time.sleep(1.6)


@task(run_in="process", timeout=1.5)
def quick() -> None:
    """Return at once."""
