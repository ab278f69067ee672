"""What happens to a slot while a job of its item waits or runs: a unique policy with the key of the item.

sql/functions/cron/run_cron_item.sql has the same rules.
"""

from __future__ import annotations

import hashlib
from typing import Literal, get_args

import msgspec

Overlap = Literal["allow", "skip", "replace"]
OVERLAPS: tuple[str, ...] = get_args(Overlap)

_STRATEGIES = {"skip": "ignore", "replace": "replace"}


def overlap_key(identifier: str) -> str:
    """The key of all jobs of an item.

    Args:
        identifier: The identifier of the item.

    Returns:
        64 lower-case hexadecimal digits. No other policy has it, because the texts of the others begin with a brace.
    """
    return hashlib.sha256(f"cron {identifier}".encode()).hexdigest()


def overlap_question(identifier: str, overlap: str) -> str | None:
    """The options of the job of a slot that concern other jobs of its item.

    Args:
        identifier: The identifier of the item.
        overlap: One of `OVERLAPS`.

    Returns:
        JSON text for `_add_jobs`; None if it has no such options.
    """
    if overlap not in _STRATEGIES:
        return None
    asked = {"key": overlap_key(identifier), "on_conflict": _STRATEGIES[overlap]}
    return msgspec.json.encode(asked).decode()
