"""graphile-worker, Node's queue for PostgreSQL; `best` are the settings of its own performance test."""

from __future__ import annotations

from benchmarks.peers.peer import Peer

BEST = {
    "concurrentJobs": 24,
    "maxPoolSize": 25,
    "localQueue": {"size": 500, "refetchDelay": {"durationMs": 10}},
    "completeJobBatchDelay": 0,
    "failJobBatchDelay": 0,
}

PEER = Peer(
    name="graphile",
    title="graphile-worker",
    home="node",
    program="graphile.js",
    packages=("graphile-worker", "pg"),
    variants={"default": {"preset": {"concurrentJobs": 10}}, "best": {"preset": BEST}},
    entries={
        "drain": {"default": 20_000, "best": 100_000},
        "drain_2": {"best": 200_000},
        "latency": {"default": 200, "best": 200},
        "add_1": {"default": 3_000},
        "add_10": {"default": 5_000},
        "bulk_1000": {"default": 50_000},
        "bulk_10000": {"default": 50_000},
        "sql_add": {"default": 20_000},
        "sql_add_queue": {"default": 20_000},
        "sql_add_key": {"default": 20_000},
        "future": {"best": 100_000},
        "serial": {"default": 5},
    },
    left="from graphile_worker._private_jobs where true",
)
