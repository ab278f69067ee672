"""The figures of a crash test, for soak.py, which sums them up."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

FILE = "ASYNCQ_CHAOS_SUMMARY"


def tell(numbers: Mapping[str, object]) -> None:
    """Append a line to the file that ASYNCQ_CHAOS_SUMMARY names, if there is one."""
    if path := os.environ.get(FILE):
        with Path(path).open("a") as file:
            file.write(json.dumps(numbers) + "\n")
