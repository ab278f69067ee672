"""Procrastinate; `best` runs ten jobs at once."""

from __future__ import annotations

from benchmarks.peers.peer import Peer

PEER = Peer(
    name="procrastinate",
    title="Procrastinate",
    program="benchmarks.peers.procrastinate.program",
    packages=("procrastinate", "psycopg"),
    variants={"default": {"concurrency": 1}, "best": {"concurrency": 10}},
    entries={
        "drain": {"default": 1_500, "best": 2_000},
        "latency": {"best": 200},
        "add_1": {"best": 2_000},
        "add_10": {"best": 3_000},
        "bulk_1000": {"best": 20_000},
        "bulk_10000": {"best": 20_000},
    },
    left="from procrastinate_jobs where status in ('todo', 'doing')",
    turns=3,
)
