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
        "latency": {"default": 200},
        "latency_durable": {"default": 200},
        "add_1": {"default": 6_000},
        "add_10": {"default": 5_000},
        "bulk_1000": {"default": 100_000},
        "bulk_10000": {"default": 100_000},
        "future": {"default": 100_000},
        "ready": {"default": 500_000},
        "serial": {"default": 200},
        "serial_4": {"default": 200},
        "queues": {"default": 100_000},
        "few_queues": {"default": 5_000},
        "many_queues": {"default": 100_000},
        "stuck": {"default": 50_000},
        "snapshot": {"default": 1_000_000},
        "strangers": {"default": 50_000},
        "failures": {"default": 50_000},
        "pollers": {"default": 20_000},
        "listeners": {"default": 20_000},
        "runners": {"default": 5_000},
        "fleet": {"default": 50},
        "punctuality": {"default": 250},
        "fairness": {"default": 400},
        "wait_1": {"default": 20_000},
        "wait_20": {"default": 1_000},
        "cpu_2": {"default": 1_000},
    },
    left="from asyncq.jobs where true",
)
