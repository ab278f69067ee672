"""An invented result of `benchmarks.scale`."""

from benchmarks.scale.model import estimates
from benchmarks.scale.result import Busy, Check, Costs, Idle, Parts, Payload, Queues, Scale, Waiting

DRAIN = Costs(server_us=10.0, client_us=10.0, backend_us=5.0, wal_bytes=600.0)
ADD = Costs(server_us=200.0, client_us=100.0, backend_us=200.0, wal_bytes=300.0)
PARTS = Parts(
    cores=2,
    fsync_ms=0.2,
    trip_ms=0.05,
    log_mb_per_s=300.0,
    held_us=0.5,
    drain=DRAIN,
    add=ADD,
    crowd=ADD,
    overlap=2.0,
)


def check(predicted: float, measured: float, *, others: float = 0.0, is_fitted: bool = False) -> Check:
    """A prediction and its measurement."""
    return Check(
        work="drain",
        bound="cores of all",
        predicted=predicted,
        measured=measured,
        others=others,
        is_fitted=is_fitted,
    )


def scale() -> Scale:
    """One row in each part."""
    waiting = Waiting(
        kind="future",
        jobs=1_000_000,
        batch_ms=3.0,
        batch_blocks=4_000,
        one_ms=0.1,
        one_blocks=20,
        add_ms=0.4,
        counts_ms=9.0,
        table_bytes=140.0,
        index_bytes=75.0,
    )
    idle = Idle(
        workers=64,
        transactions_per_s=200.0,
        server_cpu=0.03,
        worker_cpu=0.4,
        connections=192,
        worker_mb=36.0,
        backend_mb=4.0,
    )
    queues = Queues(
        queues=10_000, jobs=20_000, rate=30_000.0, batch_ms=12.0, batch_blocks=13_000, batch_jobs=500, one_ms=0.6
    )
    payload = Payload(
        bytes=1_000,
        jobs=20_000,
        single_per_s=1_000.0,
        bulk_per_s=31_000.0,
        rate=24_000.0,
        add_wal=1_277.0,
        run_wal=2_642.0,
    )
    return Scale(
        date="2026-01-02 03:04",
        machine="2-cores",
        command="make bench-scale",
        conditions={"PostgreSQL": "18.4"},
        waiting=[waiting],
        busy=[Busy(workers=2, rate=70_000.0, server_us=7.0, worker_us=9.0, backend_us=3.0)],
        idle=[idle],
        queues=[queues],
        payloads=[payload],
        parts=PARTS,
        checks=[check(100.0, 100.0, is_fitted=True), check(90.0, 100.0)],
        estimates=estimates(PARTS),
    )
