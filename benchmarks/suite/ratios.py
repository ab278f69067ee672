"""The headline figures, their goals and their divisors. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.peers.registry import FLOOR, OTHERS, OURS
from benchmarks.suite.headline import Headline, Range
from benchmarks.suite.limit_goals import OF_LIMITS
from benchmarks.suite.result import MAIN, Entry

POSTGRES = tuple(peer.name for peer in OTHERS if peer.store == "postgres")
REDIS = tuple(peer.name for peer in OTHERS if peer.store == "redis")
EVERYBODY = POSTGRES + REDIS
OURSELVES = (OURS.name,)
LEAST = (FLOOR.name,)
HEADLINES: tuple[Headline, ...] = (
    Headline(
        name="drain_vs_graphile_best",
        words="drain, to graphile-worker's best",
        goal=2.0,
        work="drain",
        theirs=("graphile",),
        variant="best",
    ),
    Headline(
        name="drain_vs_pgqueuer_best",
        words="drain, to PgQueuer's best",
        goal=4.0,
        work="drain",
        theirs=("pgqueuer",),
        variant="best",
    ),
    Headline(name="drain_vs_floor", words="drain, to the floor", goal=0.65, work="drain", theirs=LEAST, variant="best"),
    Headline(
        name="drain_default_vs_best_peer_default",
        words="drain, to the best of the others' defaults",
        goal=15.0,
        work="drain",
        theirs=EVERYBODY,
        variant="default",
    ),
    Headline(
        name="drain_2_vs_graphile_best",
        words="drain by two processes, to graphile-worker's best",
        goal=1.6,
        work="drain_2",
        theirs=("graphile",),
    ),
    Headline(
        name="drain_ctx_vs_bare",
        words="drain, to one whose handlers take no context",
        goal=0.85,
        work="drain",
        theirs=OURSELVES,
        their_work="bare",
    ),
    Headline(
        name="drain_wal_vs_graphile_best",
        words="WAL of a drain, bytes a job, to graphile-worker's best",
        goal=None,
        better="less",
        work="drain",
        field="wal_bytes_a_job",
        theirs=("graphile",),
        variant="best",
    ),
    Headline(
        name="failures_vs_plain",
        words="drain in which each job fails once, to drain",
        goal=None,
        work="failures",
        field="of_plain",
    ),
    Headline(
        name="latency_p50_vs_floor",
        words="latency p50, to the floor",
        goal=0.65,
        better="less",
        work="latency",
        theirs=LEAST,
    ),
    Headline(
        name="latency_p50_vs_best_pg",
        words="latency p50, to the best on PostgreSQL",
        goal=0.45,
        better="less",
        work="latency",
        theirs=POSTGRES,
    ),
    Headline(
        name="latency_p99_vs_best_pg",
        words="latency p99, to the best on PostgreSQL",
        goal=1.0,
        better="less",
        work="latency",
        field="p99",
        theirs=POSTGRES,
    ),
    Headline(
        name="latency_p50_vs_best_redis_durable",
        words="latency p50, to the best on a Redis as durable",
        goal=None,
        better="less",
        work="latency_durable",
        theirs=REDIS,
    ),
    Headline(
        name="latency_p50_vs_best_redis_default",
        words="latency p50, to the best on a Redis as shipped",
        goal=None,
        better="less",
        work="latency",
        theirs=REDIS,
    ),
    Headline(name="add_vs_floor", words="add one by one, to the floor", goal=1.1, work="add_1", theirs=LEAST),
    Headline(
        name="add_vs_best_pg",
        words="add one by one, to the best on PostgreSQL",
        goal=1.8,
        work="add_1",
        theirs=POSTGRES,
    ),
    Headline(
        name="add_10_vs_best_pg",
        words="add by ten producers, to the best on PostgreSQL",
        goal=2.0,
        work="add_10",
        theirs=POSTGRES,
    ),
    Headline(
        name="bulk_vs_best_peer", words="bulk add in 1,000s, to the best", goal=2.0, work="bulk_1000", theirs=EVERYBODY
    ),
    Headline(
        name="bulk_10000_vs_best_peer",
        words="bulk add in 10,000s, to the best",
        goal=2.0,
        work="bulk_10000",
        theirs=EVERYBODY,
    ),
    Headline(
        name="sql_add_vs_graphile",
        words="add from SQL, to graphile-worker's",
        goal=1.0,
        work="sql_add",
        theirs=("graphile",),
    ),
    Headline(
        name="sql_add_queue_vs_graphile",
        words="add from SQL with queue_name, to graphile-worker's",
        goal=0.9,
        work="sql_add_queue",
        theirs=("graphile",),
    ),
    Headline(
        name="sql_add_key_vs_graphile",
        words="add from SQL with job_key, to graphile-worker's",
        goal=0.8,
        work="sql_add_key",
        theirs=("graphile",),
    ),
    Headline(
        name="future_vs_plain",
        words="drain beside 1,000,000 future jobs, to drain",
        goal=0.95,
        work="future",
        field="of_plain",
    ),
    Headline(
        name="ready_vs_plain",
        words="drain from 500,000 ready jobs, to drain",
        goal=0.95,
        work="ready",
        field="of_plain",
    ),
    Headline(name="serial_ms_per_job", words="serial queue, ms a job", goal=1.5, better="less", work="serial"),
    Headline(
        name="serial_4_ms_per_job",
        words="serial queue at concurrency 4, ms a job",
        goal=1.5,
        better="less",
        work="serial_4",
    ),
    Headline(
        name="queues_vs_plain",
        words="10,000 queues of 10, to drain",
        goal=0.35,
        work="queues",
        field="of_plain",
    ),
    Headline(
        name="queues_longest_fetch_ms",
        words="10,000 queues of 10, longest fetch, ms",
        goal=25.0,
        better="less",
        work="queues",
        field="longest_fetch_ms",
    ),
    Headline(
        name="few_queues_longest_fetch_ms",
        words="10 queues of 10,000, longest fetch, ms",
        goal=25.0,
        better="less",
        work="few_queues",
        field="longest_fetch_ms",
    ),
    Headline(
        name="many_queues_longest_fetch_ms",
        words="1,000,000 queues of 1, longest fetch, ms",
        goal=25.0,
        better="less",
        work="many_queues",
        field="longest_fetch_ms",
    ),
    Headline(
        name="stuck_vs_plain",
        words="drain past 100,000 jobs behind busy queues, to drain",
        goal=0.9,
        work="stuck",
        field="of_plain",
    ),
    *OF_LIMITS,
    Headline(name="snapshot_last_vs_first", words="old snapshot, last 100,000 to first", goal=0.8, work="snapshot"),
    Headline(
        name="listeners_vs_none",
        words="64 producers beside four workers that listen, to such that poll",
        goal=0.8,
        work="listeners",
        theirs=OURSELVES,
        their_work="pollers",
    ),
    Headline(
        name="runners_vs_none",
        words="64 producers while four workers run the jobs, to the same",
        goal=None,
        work="runners",
        theirs=OURSELVES,
        their_work="pollers",
    ),
    Headline(
        name="idle_queries_per_poll",
        words="50 idle workers, questions a worker and poll",
        goal=1.0,
        better="less",
        work="fleet",
    ),
    Headline(
        name="woken_by_an_add",
        words="50 idle workers, how many an add wakes",
        goal=2.0,
        better="less",
        work="fleet",
        field="woken_by_an_add",
    ),
    Headline(
        name="punctuality_p99_ms",
        words="start after run_at, p99, ms",
        goal=10.0,
        better="less",
        work="punctuality",
        field="p99",
    ),
    Headline(
        name="idle_slots_share",
        words="idle slots while something waits, four workers",
        goal=0.02,
        better="less",
        work="fairness",
    ),
    Headline(
        name="killed_s",
        words="killed worker, until its job runs again, longest, s",
        goal=1.5,
        better="less",
        work="killed",
    ),
    Headline(
        name="strangers_vs_plain",
        words="drain past 1,000,000 jobs that are not ours, to drain",
        goal=0.8,
        work="strangers",
        field="of_plain",
    ),
    Headline(
        name="strangers_idle_cpu",
        words="CPU of a worker that idles beside them",
        goal=0.02,
        better="less",
        work="strangers",
        field="idle_cpu",
    ),
    Headline(name="handlers_1_ms", words="handlers that wait 1 ms, to the handlers alone", goal=0.9, work="wait_1"),
    Headline(name="handlers_20_ms", words="handlers that wait 20 ms, to the handlers alone", goal=0.9, work="wait_20"),
    Headline(name="collected", words="100 jobs in a call of 1 ms, to a call for each job", goal=1.5, work="collect"),
    Headline(name="history", words="drain with history, to drain", goal=0.6, work="history"),
    Headline(name="around", words="drain with a middleware and a resource, to drain", goal=0.9, work="around"),
    Headline(
        name="result_vs_start",
        words="add to result, to add to start",
        goal=2.5,
        better="less",
        work="awaited",
    ),
    Headline(name="handlers_cpu", words="handlers with 2 ms of CPU, to the handlers alone", goal=0.9, work="cpu_2"),
)


def figures(runs: Sequence[Entry], line: str = MAIN) -> Mapping[str, tuple[float, Range]]:
    """All that can be made of these runs: name -> figure and range."""
    made = {each.name: each.figure(runs, line) for each in HEADLINES}
    return {name: figure for name, figure in made.items() if figure is not None}
