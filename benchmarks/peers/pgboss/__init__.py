"""pg-boss, Node's other queue for PostgreSQL."""

from __future__ import annotations

from benchmarks.peers.peer import Peer

BEST = {"batchSize": 500, "burstWhenBatchFull": True, "localConcurrency": 2}

PEER = Peer(
    name="pgboss",
    title="pg-boss",
    home="node",
    program="pgboss.js",
    packages=("pg-boss", "pg"),
    variants={"default": {"boss": {}, "work": {}}, "best": {"boss": {"useListenNotify": True}, "work": BEST}},
    entries={
        "drain": {"default": 2, "best": 100_000},
        "drain_2": {"best": 200_000},
        "latency": {"best": 200},
        "add_1": {"best": 3_000},
        "add_10": {"best": 5_000},
        "bulk_1000": {"best": 50_000},
        "bulk_10000": {"best": 50_000},
    },
    left="from pgboss.job where state < 'completed'",
)
