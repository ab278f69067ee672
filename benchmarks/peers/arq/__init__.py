"""arq, on Redis; `best` polls each 5 ms, runs a hundred jobs at once and keeps no results."""

from __future__ import annotations

from benchmarks.peers.peer import Peer

PEER = Peer(
    name="arq",
    title="arq",
    store="redis",
    home="arq",
    program="benchmarks.peers.arq.program",
    packages=("arq", "redis"),
    variants={"default": {}, "best": {"max_jobs": 100, "poll_delay": 0.005, "keep_result": 0}},
    entries={
        "drain": {"default": 200, "best": 5_000},
        "latency": {"best": 200},
        "latency_durable": {"best": 200},
        "add_1": {"best": 3_000},
        "add_10": {"best": 5_000},
    },
    left=("ZCARD arq:queue",),
    turns=3,
)
