"""The measurements and the figures computed from them. No I/O but the file."""

from __future__ import annotations

from pathlib import Path

import msgspec


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """A table in which so many jobs wait beside some that are ready for the worker.

    Attributes:
        kind: `ready`, `future`, or `strangers`: ready jobs of a task that the worker does not know, ahead of its own.
        jobs: How many.
        batch_ms: The time of a fetch of 500 jobs.
        batch_blocks: The blocks of 8 KiB that it touched.
        one_ms: The time of a fetch of one job.
        one_blocks: Its blocks.
        add_ms: The time of an add of one job.
        counts_ms: The time of `counts()`.
        table_bytes: The size of the table, for each job.
        index_bytes: The same of its indexes.
    """

    kind: str
    jobs: int
    batch_ms: float
    batch_blocks: int
    one_ms: float
    one_blocks: int
    add_ms: float
    counts_ms: float
    table_bytes: float
    index_bytes: float


class Busy(msgspec.Struct, frozen=True, kw_only=True):
    """Workers that drain a table.

    Attributes:
        workers: Processes.
        rate: Jobs a second.
        server_us: CPU of the server for each job, in microseconds.
        worker_us: CPU of the workers for each job.
        backend_us: CPU of the busiest process of the server, for each job.
    """

    workers: int
    rate: float
    server_us: float
    worker_us: float
    backend_us: float


class Idle(msgspec.Struct, frozen=True, kw_only=True):
    """Idle workers.

    Attributes:
        workers: Processes.
        transactions_per_s: Transactions a second of all of them; each query is one.
        server_cpu: The share of a core that the server uses.
        worker_cpu: The share of a core that all workers use.
        connections: How many they hold.
        worker_mb: The resident memory of one worker.
        backend_mb: The private memory of one process of the server.
    """

    workers: int
    transactions_per_s: float
    server_cpu: float
    worker_cpu: float
    connections: int
    worker_mb: float
    backend_mb: float


class Queues(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs in so many serial queues.

    Attributes:
        queues: How many queues.
        jobs: How many jobs in all.
        rate: Jobs a second, of those that were run.
        batch_ms: The time of a fetch of 500 jobs at the beginning.
        batch_blocks: The blocks that it touched.
        batch_jobs: How many jobs it found: one of each queue at most.
        one_ms: The time of a fetch of one job.
    """

    queues: int
    jobs: int
    rate: float
    batch_ms: float
    batch_blocks: int
    batch_jobs: int
    one_ms: float


class Payload(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs with payloads of one size, which cannot be compressed.

    Attributes:
        bytes: About the size of a payload.
        jobs: How many.
        single_per_s: Adds a second, one by one.
        bulk_per_s: Adds a second, in chunks.
        rate: Jobs a second in a drain.
        add_wal: Bytes of WAL for each job that was added in a chunk.
        run_wal: Bytes of WAL for each job that was run.
    """

    bytes: int
    jobs: int
    single_per_s: float
    bulk_per_s: float
    rate: float
    add_wal: float
    run_wal: float


class Costs(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of one kind of work, for each job.

    Attributes:
        server_us: CPU of the server, in microseconds.
        client_us: CPU of our process.
        backend_us: CPU of the busiest process of the server.
        wal_bytes: The written WAL.
    """

    server_us: float
    client_us: float
    backend_us: float
    wal_bytes: float


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of the model, measured on one machine.

    Attributes:
        cores: How many server and clients share.
        fsync_ms: The time of one `fdatasync` of a file that has grown by 8 KiB.
        trip_ms: The time of `select 1`, without the CPU of both sides.
        log_mb_per_s: The WAL that one connection can write, in messages of a megabyte.
        held_us: The additional time of a fetch for each job that another transaction is claiming.
        drain: The cost of a drain by one process.
        add: The cost of a single add by one producer.
        crowd: The same beside many other producers, which share a write to the disk.
        overlap: How well all that overlaps: fitted, see `model`.
    """

    cores: int
    fsync_ms: float
    trip_ms: float
    log_mb_per_s: float
    held_us: float
    drain: Costs
    add: Costs
    crowd: Costs
    overlap: float


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """A prediction and its measurement.

    Attributes:
        work: The kind of work.
        bound: The limit by the model.
        predicted: Jobs a second.
        measured: The measured rate.
        others: How many cores other programs used meanwhile; the prediction goes without these.
        is_fitted: Whether the model was fitted to this very run, so that the comparison proves nothing.
    """

    work: str
    bound: str
    predicted: float
    measured: float
    others: float
    is_fitted: bool = False

    @property
    def error(self) -> float:
        """The deviation, as a share of the measured rate."""
        return self.predicted / self.measured - 1


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """The model's estimate for another machine.

    Attributes:
        cores: The cores of the server; workers have their own.
        fsync_ms: The time of an fsync of its disk.
        trip_ms: The round trip between it and the workers.
        drain_one: Jobs a second of one process.
        drain: The same of as many processes as are worth it.
        drain_bound: What limits these.
        workers: How many processes that takes.
        add_one: Adds a second by one producer.
        add: The same by 64.
        wal_mb_per_s: The WAL that the drain writes.
    """

    cores: int
    fsync_ms: float
    trip_ms: float
    drain_one: float
    drain: float
    drain_bound: str
    workers: int
    add_one: float
    add: float
    wal_mb_per_s: float


class Scale(msgspec.Struct, kw_only=True):
    """A result file.

    Attributes:
        date: Of the start, in UTC.
        machine: A description without names of hosts or people.
        command: The command line.
        conditions: Versions and settings.
        waiting: By kind and number of jobs.
        busy: By number of workers.
        idle: The same.
        queues: By number of queues.
        payloads: By size.
        parts: The parts of the model; None if it was not requested.
        checks: The model's predictions with measurements.
        estimates: The model's estimates.
    """

    date: str
    machine: str
    command: str
    conditions: dict[str, str]
    waiting: list[Waiting] = []
    busy: list[Busy] = []
    idle: list[Idle] = []
    queues: list[Queues] = []
    payloads: list[Payload] = []
    parts: Parts | None = None
    checks: list[Check] = []
    estimates: list[Estimate] = []

    def save(self, path: Path) -> None:
        """Write it as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n")

    @classmethod
    def load(cls, path: Path) -> Scale:
        """Read one."""
        return msgspec.json.decode(path.read_bytes(), type=cls)
