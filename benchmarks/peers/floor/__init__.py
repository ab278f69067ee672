"""The floor: the least SQL that a queue can get by with, run by a minimal client. No product, a ceiling."""

from __future__ import annotations

from benchmarks.peers.peer import Peer

PEER = Peer(
    name="floor",
    title="floor",
    home="asyncq",
    program="benchmarks.peers.floor.program",
    packages=("asyncpg",),
    variants={"best": {"batch": 500, "loops": 2}, "one": {"batch": 1, "loops": 10}},
    entries={
        "drain": {"best": 100_000, "one": 10_000},
        "drain_2": {"best": 200_000},
        "latency": {"best": 200},
        "add_1": {"best": 6_000},
        "add_10": {"best": 5_000},
        "bulk_1000": {"best": 100_000},
        "bulk_10000": {"best": 100_000},
        "ready": {"best": 500_000},
    },
    left="from floor_jobs where true",
)
