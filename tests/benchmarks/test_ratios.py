"""The headline figures divide what they say."""

import pytest

from benchmarks.peers.registry import ALL
from benchmarks.suite.headline import Headline
from benchmarks.suite.ratios import HEADLINES, figures
from benchmarks.suite.recorded import SHARES, below
from benchmarks.suite.works import WORKS
from tests.benchmarks.made import runs

PROMISED = {
    "drain_vs_graphile_best",
    "drain_vs_pgqueuer_best",
    "drain_vs_floor",
    "drain_default_vs_best_peer_default",
    "latency_p50_vs_floor",
    "latency_p50_vs_best_pg",
    "latency_p50_vs_best_redis_durable",
    "bulk_vs_best_peer",
    "future_vs_plain",
    "snapshot_last_vs_first",
    "stuck_vs_plain",
    "serial_ms_per_job",
    "punctuality_p99_ms",
}


def test_every_promised_figure_is_made() -> None:
    """Other programs read the figures by these names."""
    assert set() == PROMISED - {each.name for each in HEADLINES}


@pytest.mark.parametrize("each", HEADLINES, ids=lambda each: each.name)
def test_a_figure_names_work_that_exists_and_queues_that_do_it(each: Headline) -> None:
    """A figure that can never be computed would be missing silently."""
    rivals = [ALL[name] for name in each.theirs]
    work = each.their_work or each.work

    assert each.work in WORKS
    assert each.work in ALL["asyncq"].entries
    assert not rivals or any(work in peer.entries for peer in rivals)


def test_the_best_of_the_others_is_the_fastest_by_its_median() -> None:
    """One fast run does not count, nor does a setting that is not the best."""
    seen = [
        *runs("latency", "asyncq", "default", 1.0, 1.0, 1.0),
        *runs("latency", "graphile", "default", 0.1, 9.0, 9.0),
        *runs("latency", "graphile", "best", 2.0, 2.0, 2.0),
        *runs("latency", "pgboss", "best", 4.0, 4.0, 4.0),
    ]

    assert 0.5 == figures(seen)["latency_p50_vs_best_pg"][0]


def test_defaults_are_compared_with_defaults() -> None:
    """The best settings of another queue are not what its newcomers get."""
    seen = [
        *runs("drain", "asyncq", "default", 80.0),
        *runs("drain", "graphile", "best", 40.0),
        *runs("drain", "graphile", "default", 10.0),
        *runs("drain", "arq", "default", 1.0),
    ]

    assert (8.0, 2.0) == tuple(
        figures(seen)[name][0] for name in ("drain_default_vs_best_peer_default", "drain_vs_graphile_best")
    )


def test_a_peer_far_below_its_recorded_share_is_named() -> None:
    """If other programs slowed the peers down, the run says nothing about asyncq."""
    floor = [*runs("drain", "floor", "best", 100.0), *runs("drain", "asyncq", "default", 60.0)]
    as_recorded, hindered = 100 * SHARES["drain"]["best"]["graphile", "best"], 10.0

    assert [] == below([*floor, *runs("drain", "graphile", "best", as_recorded)])
    assert 1 == len(below([*floor, *runs("drain", "graphile", "best", hindered)]))


def test_where_the_floor_is_faster_than_the_recorded_one_each_is_compared_with_the_others() -> None:
    """On another machine the floor differs for all. Only a peer that falls behind the other peers is named."""
    floor = [*runs("drain", "floor", "best", 200.0), *runs("drain", "asyncq", "default", 60.0)]
    shares = SHARES["drain"]["best"]
    as_recorded = {who: 100 * share for who, share in shares.items()}
    hindered = as_recorded | {("graphile", "best"): 0.7 * as_recorded["graphile", "best"]}
    named = [
        below([*floor, *(run for who, value in seen.items() for run in runs("drain", *who, value))])
        for seen in (as_recorded, hindered)
    ]

    assert [] == named[0]
    assert ["drain: graphile (best) at 0.35 of its recorded share of the floor, 0.50 is usual"] == named[1]


def test_a_latency_far_above_its_recorded_share_is_named() -> None:
    """A lower figure is better there."""
    floor = [*runs("latency", "floor", "best", 1.0), *runs("latency", "asyncq", "default", 0.6)]

    assert 1 == len(below([*floor, *runs("latency", "graphile", "best", 9.0)]))


def test_every_recorded_share_is_of_a_run_that_takes_place() -> None:
    """A renamed work would let every run count."""
    recorded = [(work, *who) for work, floors in SHARES.items() for shares in floors.values() for who in shares]

    assert [] == [each for each in recorded if each[2] not in ALL[each[1]].entries.get(each[0], {})]


def test_a_slow_queue_that_no_figure_depends_on_is_not_named() -> None:
    """The best of the others' defaults is the same, however slow the slowest of them was in two runs."""
    seen = [
        *runs("drain", "floor", "one", 100.0),
        *runs("drain", "asyncq", "default", 900.0),
        *runs("drain", "pgqueuer", "default", 130.0),
    ]
    slow, best = runs("drain", "saq", "default", 10.0), runs("drain", "pgqueuer", "default", 60.0)

    assert [] == below([*seen, *slow])
    assert 1 == len(below([*seen[:-1], *best]))
