"""What happens to a slot while a job of its item waits or runs: a unique policy with the key of the item.

sql/functions/cron/run_cron_item.sql has the same rules.
"""

import hashlib
from typing import Literal, get_args

from asyncq.domain.unique import OnConflict

Overlap = Literal["allow", "skip", "replace"]
OVERLAPS: tuple[str, ...] = get_args(Overlap)

_STRATEGIES = {"skip": OnConflict.IGNORE, "replace": OnConflict.REPLACE}


def overlap_policy(identifier: str, overlap: str) -> tuple[str, OnConflict] | None:
    """The key and the strategy of all jobs of an item, or None if they may overlap.

    No other policy has the key, because the texts of the others begin with a brace.
    """
    strategy = _STRATEGIES.get(overlap)
    return None if strategy is None else (hashlib.sha256(f"cron {identifier}".encode()).hexdigest(), strategy)
