"""The benchmark in three parts runs, and checks itself."""

import argparse
import json
import re
from collections.abc import Iterator

import pytest

from asyncq.server import Server, start
from benchmarks import seeds

FEW = ["--jobs", "50", "--processes", "2", "--latency", "3", "--rounds", "1"]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server of its own: the benchmark uses the schema asyncq."""
    with start() as server:
        yield server


def test_the_three_parts_run(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    """Real processes run the jobs, and their number is compared with what they have completed."""
    assert 0 == seeds.main(["--dsn", server.dsn, "--json", *FEW])

    figures = json.loads(capsys.readouterr().out)["figures"]
    assert figures["latency_min_ms"] <= figures["latency_p50_ms"] <= figures["latency_max_ms"]
    assert all(value > 0 for value in figures.values())


def test_a_worker_that_cannot_run_ends_the_benchmark(server: Server) -> None:
    """A part that fails has no figure."""
    with pytest.raises(SystemExit, match="the worker ended with 2"):
        seeds.run_worker(server.dsn, "--concurrency", "0")


def test_the_text_has_a_line_for_each_part() -> None:
    """As other queues print it."""
    names = ("start_and_stop_ms", "group_start_and_stop_ms", "load_ms", "jobs_per_s")
    figures = dict.fromkeys((*names, *(f"latency_{name}_ms" for name in ("min", "avg", "p50", "p99", "max"))), 1500.0)
    args = argparse.Namespace(jobs=20_000, processes=4, concurrency=10)

    lines = seeds.text_of(figures, args).splitlines()

    assert ["start and stop", "load", "latency"] == [re.split(" {2,}", line)[0] for line in lines]
    assert "20,000 jobs, 4 processes x 10" in lines[1]
