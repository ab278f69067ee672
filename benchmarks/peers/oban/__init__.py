"""Oban for Python, the free part; `best` lets a queue run a thousand jobs at once."""

from __future__ import annotations

from benchmarks.peers.peer import Peer

PEER = Peer(
    name="oban",
    title="Oban",
    program="benchmarks.peers.oban.program",
    packages=("oban", "psycopg"),
    variants={"default": {"limit": 10}, "best": {"limit": 1000}},
    entries={
        "drain": {"default": 5_000, "best": 20_000},
        "latency": {"default": 200},
        "add_1": {"default": 3_000},
        "add_10": {"default": 5_000},
        "bulk_1000": {"default": 5_000},
    },
    left="from oban_jobs where state <> 'completed'",
    turns=3,
)
