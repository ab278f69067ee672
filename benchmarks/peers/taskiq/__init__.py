"""taskiq, on a Redis stream whose messages are acknowledged."""

from __future__ import annotations

from benchmarks.peers.peer import Peer

PEER = Peer(
    name="taskiq",
    title="taskiq",
    store="redis",
    home="taskiq",
    program="benchmarks.peers.taskiq.program",
    packages=("taskiq", "taskiq-redis", "redis"),
    variants={"default": {}},
    entries={
        "drain": {"default": 5_000},
        "latency": {"default": 200},
        "latency_durable": {"default": 200},
        "add_1": {"default": 3_000},
        "add_10": {"default": 5_000},
    },
    left=("XPENDING taskiq taskiq",),
)
