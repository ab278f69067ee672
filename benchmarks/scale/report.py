"""A result for people, in Markdown. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from benchmarks.scale import model
from benchmarks.scale.result import Check, Estimate, Parts, Scale
from benchmarks.suite.report import number, row

NEAR = 0.25  # an error that a prediction may have
BUSY = 0.2  # cores; if other programs use more, a measurement is not reliable


def report(result: Scale) -> str:
    """The whole text."""
    parts = [
        conditions(result),
        waiting(result),
        busy(result),
        idle(result),
        queues(result),
        payloads(result),
        *([parts_of_model(result.parts), checks(result.checks)] if result.parts else []),
        *([estimates(result.estimates)] if result.estimates else []),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def conditions(result: Scale) -> str:
    """The conditions of the measurement."""
    words = ", ".join(f"{name} {value}" for name, value in result.conditions.items())
    return f"`{result.command}` on {result.date}, {result.machine}; {words}."


def table(title: str, words: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A part with one table; nothing if that has no rows."""
    lines = [row(*cells) for cells in rows]
    if not lines:
        return ""
    rule = row("---", *("---:" for _ in heads[1:]))
    return "\n".join([f"### {title}", "", words, "", row(*heads), rule, *lines])


def waiting(result: Scale) -> str:
    """Jobs that wait."""
    return table(
        "Jobs that wait",
        "Fetches, rolled back, while so many jobs wait. `future` ones and `strangers` (ready jobs of a task that the "
        "worker does not know, due before its own) wait beside 1,000 ready ones of the worker's. A block has 8 KiB and "
        "counts each time it is touched.",
        (
            "what waits",
            "jobs",
            "fetch of 500, ms",
            "blocks",
            "fetch of 1, ms",
            "blocks",
            "add, ms",
            "`counts()`, ms",
            "table, bytes a job",
            "indexes",
        ),
        (
            (
                each.kind,
                f"{each.jobs:,}",
                number(each.batch_ms),
                f"{each.batch_blocks:,}",
                number(each.one_ms),
                f"{each.one_blocks:,}",
                number(each.add_ms),
                number(each.counts_ms),
                number(each.table_bytes),
                number(each.index_bytes),
            )
            for each in result.waiting
        ),
    )


def busy(result: Scale) -> str:
    """Workers that drain."""
    return table(
        "Busy workers",
        "Processes drain one table of jobs that do nothing, on the cores that the server uses too. CPU for each "
        "job, in microseconds.",
        ("processes", "jobs/s", "CPU of the server", "of the workers"),
        (
            (str(each.workers), number(each.rate), number(each.server_us), number(each.worker_us))
            for each in result.busy
        ),
    )


def idle(result: Scale) -> str:
    """Workers without work."""
    return table(
        "Idle workers",
        "Processes have nothing to do, and all listen. A query is a transaction. CPU is a share of one core. The "
        "memory of a connection is what its process on the server shares with no other.",
        (
            "processes",
            "transactions/s",
            "CPU of the server",
            "of all workers",
            "connections",
            "memory of a worker, MB",
            "of a connection, MB",
        ),
        (
            (
                str(each.workers),
                number(each.transactions_per_s),
                f"{each.server_cpu:.1%}",
                f"{each.worker_cpu:.1%}",
                f"{each.connections:,}",
                number(each.worker_mb),
                number(each.backend_mb),
            )
            for each in result.idle
        ),
    )


def queues(result: Scale) -> str:
    """Serial queues."""
    return table(
        "Serial queues",
        "One worker; jobs of one queue run one after the other, so a fetch finds one of each queue at most. Of more "
        "than 50,000 jobs the first 50,000 are run.",
        ("queues", "jobs", "jobs/s", "fetch of 500, ms", "blocks", "jobs found", "fetch of 1, ms"),
        (
            (
                f"{each.queues:,}",
                f"{each.jobs:,}",
                number(each.rate),
                number(each.batch_ms),
                f"{each.batch_blocks:,}",
                f"{each.batch_jobs:,}",
                number(each.one_ms),
            )
            for each in result.queues
        ),
    )


def payloads(result: Scale) -> str:
    """Payloads."""
    return table(
        "Payloads",
        "One producer, then one worker; the texts in the payloads cannot be compressed. WAL in bytes a job.",
        ("bytes", "jobs", "single adds/s", "bulk adds/s", "drain, jobs/s", "WAL of an add", "WAL of a run"),
        (
            (
                f"{each.bytes:,}",
                f"{each.jobs:,}",
                number(each.single_per_s),
                number(each.bulk_per_s),
                number(each.rate),
                number(each.add_wal),
                number(each.run_wal),
            )
            for each in result.payloads
        ),
    )


def parts_of_model(parts: Parts) -> str:
    """The table of the model's parts."""
    by_name = {
        "drain, 1 process": parts.drain,
        "single add, 1 producer": parts.add,
        f"single add, {model.CROWD} producers": parts.crowd,
    }
    return table(
        "The model: its parts",
        f"Measured: {parts.cores} cores, `fdatasync` {parts.fsync_ms:.3f} ms, a round trip to the server of "
        f"{parts.trip_ms:.3f} ms, a log of {number(parts.log_mb_per_s)} MB/s. A fetch takes {parts.held_us:.2f} us "
        "more for each job at the front that another transaction is claiming. The table has microseconds (us) of CPU a "
        f"job. Fitted to the drain by one process: overlap {parts.overlap:.2f} (1: no part of a job's way overlaps "
        "with another; 16: the slowest part alone counts).",
        ("work", "CPU of the server", "of our process", "WAL, bytes"),
        (
            (name, number(each.server_us), number(each.client_us), number(each.wal_bytes))
            for name, each in by_name.items()
        ),
    )


def checks(found: Sequence[Check]) -> str:
    """Predictions beside measurements."""
    told = [check for check in found if not check.is_fitted]
    near = sum(abs(check.error) <= NEAR for check in told)
    unrest = sum(check.others > BUSY for check in found)
    words = (
        f"{near} of {len(told)} predictions are within {NEAR:.0%} of what was measured. A slower disk is simulated by "
        "`commit_delay`, a longer round trip by a relay with a delay. The least statement that waits for it measures "
        "how long it is. The cores that other programs used meanwhile, the relay among them, are subtracted. The model "
        "does not know that processes then wait for a core. The CPU of an add was measured in the first run of each "
        "kind."
    )
    if unrest:
        words += f" **Other programs used more than {BUSY:g} cores in {unrest} of these runs.**"
    return table(
        "The model: predictions and measurements",
        words,
        ("work", "predicted/s", "measured/s", "error", "cores in use by others", "limit"),
        (
            (
                check.work,
                number(check.predicted),
                number(check.measured),
                "fitted" if check.is_fitted else f"{check.error:+.0%}",
                f"{check.others:.1f}",
                check.bound,
            )
            for check in found
        ),
    )


def estimates(found: Sequence[Estimate]) -> str:
    """The table of the estimates for other machines."""
    return table(
        "The model: estimates",
        "**Each figure is an estimate** (est.), none was measured. The server has a machine of its own, with so many "
        "cores like those here and a disk that writes as much a second. Workers and producers run on other machines, "
        "and jobs do nothing. The estimates are more likely too high than too low. Of what cores take from each other "
        "the model knows only the claims of other workers, not caches, memory and further locks. It does not know the "
        "limit of the network. Figures far above the measured rates are arithmetic, no more. The processes are as many "
        f"as reach {model.ENOUGH:.0%} of the rate of {model.MOST_WORKERS}.",
        (
            "cores, fsync, round trip",
            "drain by 1 process",
            "drain by many",
            "processes",
            "WAL, MB/s",
            "limit",
            "adds by 1 producer",
            f"adds by {model.CROWD}",
        ),
        (
            (
                f"{each.cores}, {each.fsync_ms:g} ms, {each.trip_ms:g} ms",
                f"est. {rounded(each.drain_one)}/s",
                f"est. {rounded(each.drain)}/s",
                f"est. {each.workers}",
                f"est. {rounded(each.wal_mb_per_s)}",
                each.drain_bound,
                f"est. {rounded(each.add_one)}/s",
                f"est. {rounded(each.add)}/s",
            )
            for each in found
        ),
    )


def rounded(value: float) -> str:
    """To two digits: an estimate has no more."""
    return f"{float(f'{value:.2g}'):,.0f}"
