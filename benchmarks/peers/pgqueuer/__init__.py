"""PgQueuer, on asyncpg; `best` fetches 500 at once and sets the autovacuum options that it offers."""

from __future__ import annotations

from benchmarks.peers.peer import Peer

PEER = Peer(
    name="pgqueuer",
    title="PgQueuer",
    program="benchmarks.peers.pgqueuer.program",
    packages=("pgqueuer", "asyncpg"),
    variants={"default": {"batch": 10}, "best": {"batch": 500, "autovac": True}},
    entries={
        "drain": {"default": 20_000, "best": 100_000},
        "drain_2": {"best": 200_000},
        "latency": {"default": 200, "best": 200},
        "add_1": {"best": 3_000},
        "add_10": {"best": 5_000},
        "bulk_1000": {"best": 50_000},
        "bulk_10000": {"best": 50_000},
    },
    left="from pgqueuer where true",
)
