"""SAQ, on PostgreSQL and on Redis; `best` runs a hundred jobs at once."""

from __future__ import annotations

from benchmarks.peers.peer import Peer

VARIANTS = {"default": {"concurrency": 10, "pool": 20}, "best": {"concurrency": 100, "pool": 40}}

PEER = Peer(
    name="saq",
    title="SAQ (PostgreSQL)",
    program="benchmarks.peers.saq.program",
    packages=("saq", "psycopg"),
    variants=VARIANTS,
    entries={
        "drain": {"default": 2_000, "best": 2_000},
        "latency": {"best": 200},
        "add_1": {"best": 2_000},
        "add_10": {"best": 3_000},
    },
    left="from saq_jobs where status in ('new', 'queued', 'active')",
    turns=3,
)

ON_REDIS = Peer(
    name="saq_redis",
    title="SAQ (Redis)",
    store="redis",
    program="benchmarks.peers.saq.program",
    packages=("saq", "redis"),
    variants=VARIANTS,
    entries={
        "drain": {"best": 5_000},
        "latency": {"best": 200},
        "latency_durable": {"best": 200},
        "add_1": {"best": 3_000},
        "add_10": {"best": 5_000},
    },
    left=("LLEN saq:default:queued", "LLEN saq:default:active"),
)
