"""From samples of the worker's stack to parts of the worker: the innermost frame that has a part decides."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

LOOP = "event loop, sockets"
"""Code without a frame of Python: uvloop calls the driver's protocol, which reads answers."""

PARTS = (
    (r"benchmarks/tasks\.py", "handler"),
    (r"asyncq/engine/(base/user_code|run/child_tasks)\.py", "handler's asyncio task and context"),
    (r"asyncq/engine/run/(executor|run|context|transactions)\.py", "run: executor, context"),
    (r"asyncq/domain/(signature|payload)\.py", "payload decoded"),
    (r"asyncq/engine/(liveness/start_gate|base/lease)\.py", "admission"),
    (r"asyncq/engine/(fetch/buffer|job_loop)\.py", "buffer, job loops"),
    (
        r"asyncq/engine/(fetch/\w+|base/pace)\.py|\bfetch_jobs\b|asyncq/domain/(job|moment)\.py",
        "fetch",
    ),
    (r"asyncq/engine/settle/(completer|claim_next)\.py|\bsettle\w*\b|asyncq/domain/outcome\.py", "settle, completer"),
    (r"asyncq/engine/(settle/reporter|base/observers)\.py|asyncq/domain/events\.py", "events"),
    (r"asyncq/engine/(liveness/\w+|maintenance/\w+|supervisor)\.py", "heartbeat, watchers"),
    (r"asyncq/store/(jobs|arrays)\.py", "store: columns to claims, ids to text"),
    (r"asyncpg/", "driver: statements sent, rows decoded"),
    (r"asyncq/", "all else of asyncq"),
)

_RULES = [(re.compile(pattern), part) for pattern, part in PARTS]


def part_of(stack: str) -> str:
    """Which part a sample belongs to.

    Args:
        stack: Frames from the outermost to the innermost, as `py-spy record -f raw` writes them: `name (file:line)`,
            parted by semicolons.

    Returns:
        The name of a part.
    """
    for frame in reversed(stack.split(";")):
        for pattern, part in _RULES:
            if pattern.search(frame):
                return part
    return LOOP


def shares(lines: Iterable[str]) -> dict[str, float]:
    """The shares of the parts in the samples.

    Args:
        lines: Each a stack, a blank and its number of samples.

    Returns:
        Part -> share of all samples, the largest first.
    """
    seen: Counter[str] = Counter()
    for line in lines:
        stack, _, times = line.rpartition(" ")
        if stack:
            seen[part_of(stack)] += int(times)
    everything = sum(seen.values())
    return {part: times / everything for part, times in seen.most_common()}
