"""The checks of the chaos suite find each fault, and each excuse covers only its own fault."""

from pathlib import Path

import pytest

from tests.crash import ledger
from tests.crash.ledger import Fate, Run

SECOND = 1_000_000_000


def run(began_s: float, ended_s: float, ending: str = "completed", *, attempt: int = 1, process: int = 0) -> Run:
    """A run of job 1, which is in the queue `q`."""
    began = int(began_s * SECOND)
    return Run(1, "q", process, began, began, attempt, int(ended_s * SECOND), ending)


def span(began_s: float, ended_s: float) -> list[tuple[int, int]]:
    """From when to when."""
    return [(int(began_s * SECOND), int(ended_s * SECOND))]


def test_two_runs_at_once_are_seen() -> None:
    """Overlapping runs of one job are found twice, as a job and as a queue."""
    runs = [run(10, 12), run(11, 13, process=1)]

    assert [(runs[0], runs[1])] * 2 == ledger.overlapping(runs, {0: Fate(), 1: Fate()}, ["q"])


@pytest.mark.parametrize(
    ("fate", "overlaps", "repeats"),
    [
        pytest.param(Fate(), 2, 1, id="well"),
        pytest.param(Fate(stalled=span(9, 15)), 0, 0, id="stalled"),
        pytest.param(Fate(cut_off=span(9, 15)), 2, 0, id="cut off"),
        pytest.param(Fate(stalled=span(1, 5)), 2, 1, id="stalled long before"),
        pytest.param(Fate(stalled=span(9, 10.5)), 2, 0, id="stalled, and went on long after"),
    ],
)
def test_a_stalled_process_may_overlap_and_one_that_was_cut_off_may_repeat(
    fate: Fate, overlaps: int, repeats: int
) -> None:
    """A process that is cut off cancels its handlers by its own clock, but cannot write their outcome."""
    runs = [run(10, 12), run(11, 13, process=1)]
    fates = {0: fate, 1: Fate()}

    assert (overlaps, repeats) == (len(ledger.overlapping(runs, fates, ["q"])), len([*ledger.repeated(runs, fates)]))


def test_a_run_that_begins_after_a_pause_of_its_process_is_found() -> None:
    """Another worker runs the job by then. A paused process has to check its lease before it begins a job."""
    runs = [run(10, 16), run(15.1, 15.2, process=1), run(17, 18)]
    fates = {0: Fate(), 1: Fate(stalled=span(9, 15))}

    assert (2, 1) == (len(ledger.overlapping(runs, fates, ["q"])), len([*ledger.repeated(runs[1:], fates)]))


def test_a_process_that_died_may_repeat() -> None:
    """The outcome of its run is unknown."""
    runs = [run(10, 12), run(14, 15, process=1)]

    assert [] == [*ledger.repeated(runs, {0: Fate(died=13 * SECOND), 1: Fate()})]


def test_a_run_before_its_time_is_seen() -> None:
    """The clock of the schema may be ahead of the machine's from some moment on."""
    early, due = run(10, 12), {1: 11 * SECOND}

    assert [early] == ledger.early([early], due, [(12 * SECOND, 5 * SECOND)])
    assert [] == ledger.early([early], due, [(9 * SECOND, 5 * SECOND)])


@pytest.mark.parametrize(
    ("ending", "attempts", "wrong"),
    [("failed", (1, 1), 1), ("failed", (1, 2), 0), ("cancelled", (1, 1), 0), ("cancelled", (2, 1), 1)],
)
def test_a_failure_is_an_attempt_and_attempts_never_fall(ending: str, attempts: tuple[int, int], wrong: int) -> None:
    """A cancelled run need not count as an attempt."""
    runs = [run(10, 12, ending, attempt=attempts[0]), run(14, 15, attempt=attempts[1])]

    assert wrong == len([*ledger.uncounted(runs, {0: Fate()})])


@pytest.mark.parametrize(
    ("cut", "transactional", "wrong"),
    [(span(11, 13), True, 0), (span(11, 13), False, 1), (span(1, 5), True, 1)],
    ids=["just then", "without a transaction", "long before"],
)
def test_a_failure_whose_connection_is_lost_just_then_may_be_no_attempt(
    cut: ledger.Spans, *, transactional: bool, wrong: int
) -> None:
    """The worker's transaction was lost, which is no fault of the handler."""
    runs = [run(10, 12, "failed"), run(14, 15)]
    numbers = {runs[0].number} if transactional else set[int]()

    assert wrong == len([*ledger.uncounted(runs, {0: Fate(cut=cut)}, numbers)])


def test_attempts_without_runs_are_counted() -> None:
    """A few are named and never begin, when their worker dies."""
    assert 3 == ledger.lost_starts([run(10, 12, "failed"), run(13, 14, attempt=5)])


def test_a_process_that_runs_a_job_beside_itself_is_read(tmp_path: Path) -> None:
    """After a stall a process may claim its own job again while the first handler still runs. Both runs are judged."""
    path = tmp_path / "ledger"
    lines = ["begin 7 - 1 1 1", "begin 7 - 2 2 1", "cancelled 7 - 3 3 1", "completed 7 - 4 4 1"]
    path.write_text("".join(f"{line}\n" for line in lines))

    assert [(1, 3, "cancelled"), (2, 4, "completed")] == [
        (run.began, run.ended, run.ending) for run in ledger.read([(0, path, Fate())])
    ]
