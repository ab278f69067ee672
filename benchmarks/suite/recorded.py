"""The rates of other queues in an earlier run on this kind of machine, as shares of the floor of the same run.

If one of them falls far below its share, and a figure would differ otherwise, the run does not count: something slowed
down a queue with which asyncq is compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import msgspec

from benchmarks.peers.registry import FLOOR
from benchmarks.suite.ratios import figures
from benchmarks.suite.result import MAIN, Entry, series
from benchmarks.suite.works import WORKS

ENOUGH = 0.8
SEVERAL = 3  # of so many the median says what is usual

# work -> variant of the floor -> (queue, variant) -> share of the floor's rate; how many times the floor's latency.
SHARES: dict[str, dict[str, dict[tuple[str, str], float]]] = {
    "drain": {
        "best": {
            ("graphile", "best"): 53_570 / 100_407,
            ("pgboss", "best"): 38_194 / 100_407,
            ("pgqueuer", "best"): 19_700 / 100_407,
        },
        "one": {
            ("oban", "best"): 5_852 / 4_319,
            ("pgqueuer", "default"): 5_680 / 4_319,
            ("graphile", "default"): 4_034 / 4_319,
            ("oban", "default"): 2_529 / 4_319,
            ("saq", "best"): 960 / 4_319,
            ("saq", "default"): 910 / 4_319,
            ("procrastinate", "best"): 795 / 4_319,
            ("procrastinate", "default"): 604 / 4_319,
        },
    },
    "drain_2": {
        "best": {
            ("graphile", "best"): 78_798 / 153_501,
            ("pgboss", "best"): 45_047 / 153_501,
            ("pgqueuer", "best"): 33_487 / 153_501,
        }
    },
    "latency": {
        "best": {
            ("oban", "default"): 2.83 / 1.34,
            ("pgqueuer", "best"): 2.85 / 1.34,
            ("graphile", "best"): 2.92 / 1.34,
            ("graphile", "default"): 3.04 / 1.34,
            ("procrastinate", "best"): 4.16 / 1.34,
            ("pgboss", "best"): 4.37 / 1.34,
            ("saq", "best"): 5.07 / 1.34,
        }
    },
    "add_1": {
        "best": {
            ("pgqueuer", "best"): 2_057 / 2_553,
            ("oban", "default"): 1_907 / 2_553,
            ("graphile", "default"): 1_622 / 2_553,
            ("saq", "best"): 1_338 / 2_553,
            ("pgboss", "best"): 1_251 / 2_553,
            ("procrastinate", "best"): 964 / 2_553,
        }
    },
    "add_10": {
        "best": {
            ("oban", "default"): 4_090 / 4_870,
            ("saq", "best"): 2_891 / 4_870,
            ("pgqueuer", "best"): 2_614 / 4_870,
            ("procrastinate", "best"): 2_091 / 4_870,
            ("graphile", "default"): 1_955 / 4_870,
            ("pgboss", "best"): 1_637 / 4_870,
        }
    },
    "bulk_1000": {
        "best": {
            ("graphile", "default"): 82_986 / 276_474,
            ("pgqueuer", "best"): 71_777 / 276_474,
            ("pgboss", "best"): 57_680 / 276_474,
            ("procrastinate", "best"): 23_845 / 276_474,
            ("oban", "default"): 5_810 / 276_474,
        }
    },
    "bulk_10000": {
        "best": {
            ("graphile", "default"): 88_766 / 334_137,
            ("pgqueuer", "best"): 73_558 / 334_137,
            ("pgboss", "best"): 65_554 / 334_137,
            ("procrastinate", "best"): 24_028 / 334_137,
        }
    },
}


def below(runs: Sequence[Entry]) -> list[str]:
    """The queues that did not reach enough of their recorded share although a figure depends on it, in words.

    If most of the others reach less too, the floor is faster than the recorded one, which had another
    server, processor and connection: then each is compared with the others.
    """
    found: list[str] = []
    for work, by_floor in SHARES.items():
        for variant_of_floor, shares in by_floor.items():
            reached = reached_shares(runs, work, variant_of_floor, shares)
            usual = min(1.0, median(reached.values())) if len(reached) >= SEVERAL else 1.0
            found.extend(
                f"{work}: {peer} ({variant}) at {ratio:.2f} of its recorded share of the floor, {usual:.2f} is usual"
                for (peer, variant), ratio in reached.items()
                if ratio < ENOUGH * usual and changes_a_figure(runs, work, peer, variant, usual / ratio)
            )
    return found


def changes_a_figure(runs: Sequence[Entry], work: str, peer: str, variant: str, times: float) -> bool:
    """Whether a figure would differ if a queue had been better at a work by a factor.

    Most figures compare with the best of several queues: a slow one among the others does not change them.
    """
    factor = times if WORKS[work].better == "more" else 1 / times
    better = [
        msgspec.structs.replace(run, value=run.value * factor)
        if (run.work, run.peer, run.variant) == (work, peer, variant) and run.value is not None
        else run
        for run in runs
    ]
    return figures(better, MAIN) != figures(runs, MAIN)


def reached_shares(
    runs: Sequence[Entry], work: str, variant_of_floor: str, shares: dict[tuple[str, str], float]
) -> dict[tuple[str, str], float]:
    """How much of its recorded share each queue reached, if it took part."""
    floor = series(runs, MAIN, work, FLOOR.name, variant_of_floor)
    reached: dict[tuple[str, str], float] = {}
    for (peer, variant), recorded in shares.items():
        theirs = series(runs, MAIN, work, peer, variant)
        if floor and theirs:
            share = theirs.median / floor.median
            reached[peer, variant] = share / recorded if WORKS[work].better == "more" else recorded / share
    return reached
