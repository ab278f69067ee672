"""asyncq: `Worker(dsn, tasks=[...])` and nothing else, INFO logging on."""

from __future__ import annotations

from benchmarks.peers.peer import Peer

PEER = Peer(
    name="asyncq",
    title="asyncq",
    home="asyncq",
    program="benchmarks.peers.asyncq.program",
    packages=("asyncq", "asyncpg", "msgspec", "anyio"),
    variants={"default": {}},
    entries={
        "drain": {"default": 100_000},
        "drain_2": {"default": 200_000},
        "latency": {"default": 300},
        "add_1": {"default": 3_000},
        "add_10": {"default": 5_000},
        "bulk_1000": {"default": 100_000},
        "bulk_10000": {"default": 100_000},
        "future": {"default": 100_000},
        "ready": {"default": 500_000},
    },
    left="from asyncq._jobs where true",
)
