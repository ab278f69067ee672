"""What happens to a slot while a job of its item waits or runs: a unique policy with the key of the item.

sql/functions/cron/run_cron_item.sql has the same rules.
"""

import hashlib
from typing import Literal, get_args

import msgspec

Overlap = Literal["allow", "skip", "replace"]
OVERLAPS: tuple[str, ...] = get_args(Overlap)

_STRATEGIES = {"skip": "ignore", "replace": "replace"}


def overlap_key(identifier: str) -> str:
    """The key of all jobs of an item: 64 lower-case hexadecimal digits.

    No other policy has it, because the texts of the others begin with a brace.
    """
    return hashlib.sha256(f"cron {identifier}".encode()).hexdigest()


def overlap_question(identifier: str, overlap: str) -> str | None:
    """The options of a slot's job that concern other jobs of its item, as JSON for `_add_jobs`; None without any."""
    if overlap not in _STRATEGIES:
        return None
    asked = {"key": overlap_key(identifier), "on_conflict": _STRATEGIES[overlap]}
    return msgspec.json.encode(asked).decode()
