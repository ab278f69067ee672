"""The reads, statements and reports of `make bench-scale`."""

import asyncio
import time
from pathlib import Path

import asyncpg
import pytest

from asyncq import Client
from benchmarks.scale import __main__ as face
from benchmarks.scale import crew, fleets, payloads
from benchmarks.scale.checks import middle
from benchmarks.scale.crew import Seen, Used, seen
from benchmarks.scale.fill import KINDS, OURS, Kind, fill, task_id
from benchmarks.scale.parts import fsync_ms
from benchmarks.scale.place import ENDED, Database, Place
from benchmarks.scale.relay import far_away
from benchmarks.scale.report import report
from benchmarks.scale.result import Scale
from benchmarks.scale.waiting import BATCH, BESIDE, claim, fetch
from benchmarks.suite import docs
from benchmarks.suite.processes import TICKS_PER_S
from tests.benchmarks.scale_made import check, scale
from tests.support.example_program import fresh_database

TRIP_MS = 100.0


class Nowhere(Place):
    """A way to a server that we have not started."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn

    def dsn(self, database: str) -> str:
        return self._dsn


@pytest.fixture
async def database(dsn: str):
    """A database with the schema and no jobs."""
    async with fresh_database(dsn) as name:
        await Client(name).migrate()
        connection = await asyncpg.connect(name)
        yield Database(name, connection, Nowhere(name))
        await connection.close(timeout=5)


async def test_claims_that_are_not_committed_do_not_wait_for_each_other(database: Database) -> None:
    """The model needs their cost. With equal tokens the second claim would wait for ever."""
    await fill(database, 0, 2 * BATCH)
    tasks = [await task_id(database, OURS)]
    other = await asyncpg.connect(database.dsn)
    async with asyncio.timeout(10), database.connection.transaction():
        first = await claim(database.connection, tasks, BATCH)
        second = await claim(other, tasks, BATCH)
    await other.close()

    assert (BATCH, BATCH) == (first, second)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_fetch_finds_its_batch_whatever_jobs_wait_beside_it(database: Database, kind: Kind) -> None:
    """A fetch that finds nothing would look fast."""
    await fill(database, 0, BESIDE)
    await fill(database, 0, 2_000, kind)
    await database.connection.execute("vacuum analyze asyncq._jobs")

    assert BATCH == (await fetch(database, BATCH)).jobs
    assert 1 == (await fetch(database, 1)).jobs
    assert BESIDE + 2_000 == await database.connection.fetchval(
        "select count(*) from asyncq._jobs where locked_by is null"
    )


@pytest.mark.parametrize(("kind", "is_ready", "is_first"), [("future", False, False), ("strangers", True, True)])
async def test_other_jobs_are_placed_where_their_kind_needs_them(
    database: Database, kind: Kind, is_ready: bool, is_first: bool
) -> None:
    """Jobs of unknown tasks must come before the batch, else fetches need not skip them.

    Future jobs must not be due.
    """
    await fill(database, 0, 1)
    await fill(database, 1, 2, kind)
    rows = await database.connection.fetch(
        "select payload ->> 'id' = '1', run_at <= now() from asyncq._jobs order by priority, run_at, id"
    )

    assert (is_first, is_ready) == (rows[0][0], next(ready for is_beside, ready in rows if is_beside))


async def test_a_fetch_finds_one_job_of_each_queue(database: Database) -> None:
    """They are filled evenly."""
    await fill(database, 0, 200, queues=20)

    assert 20 == (await fetch(database, BATCH, "fetch_partitions")).jobs


async def test_jobs_filled_by_sql_equal_jobs_that_a_client_adds(database: Database) -> None:
    """The reported bytes per job must hold for jobs that a client adds."""
    await fill(database, 7, 8)
    async with Client(database.dsn) as client:
        await client.add_job("noop", {"id": 7})
    rows = await database.connection.fetch(
        "select to_jsonb(job) - '{id,run_at,created_at,updated_at}'::text[] from asyncq._jobs as job order by id"
    )

    filled, added = (row[0] for row in rows)
    assert added == filled


async def test_a_longer_way_takes_longer(database: Database) -> None:
    """The relay holds back each half of a round trip."""
    async with far_away(database.place, TRIP_MS) as way:
        connection = await asyncpg.connect(way.to(database.dsn))
        began = time.perf_counter()
        await connection.execute("select 1")
        took_ms = (time.perf_counter() - began) * 1000
        await connection.close(timeout=5)

    assert took_ms >= TRIP_MS


def test_costs_are_given_per_job_and_separately_for_the_busiest_process() -> None:
    """Processes that have ended count, but none of them is the busiest."""
    before = Used(server={1: 1.0, ENDED: 5.0}, ours=1.0, all=0.0, at=0.0)
    after = Used(server={1: 2.0, 2: 0.5, ENDED: 8.0}, ours=3.0, all=12.5, at=2.0)
    found = seen(10.0, 1_000_000, before, after, 600.0)

    assert (4.5, 2.0, 1.0) == pytest.approx((found.server_us, found.ours_us, found.backend_us))
    assert found.others == pytest.approx(3.0)


def test_the_model_is_made_of_the_middle_run() -> None:
    """One that was disturbed would spoil every figure."""
    runs = [Seen(rate, 0.0, 0.0, 0.0, 0.0, 0.0) for rate in (5.0, 90.0, 80.0)]

    assert 80.0 == middle(runs).rate


def test_the_cpu_of_the_machine_leaves_out_its_idle_time(tmp_path: Path) -> None:
    """user, nice, system, idle, iowait, irq, softirq, steal, in ticks."""
    (tmp_path / "stat").write_text("cpu  10 20 30 4000 500 1 2 37 0 0\ncpu0 1 2 3\n")

    assert 100 / TICKS_PER_S == crew.machine_s(tmp_path / "stat")


def test_the_memory_of_a_connection_is_its_private_part(tmp_path: Path) -> None:
    """All processes of the server share the same buffers."""
    (tmp_path / "7").mkdir()
    text = "Rss:  9000 kB\nShared_Clean:  5000 kB\nPrivate_Clean:  100 kB\nPrivate_Dirty:  300 kB\n"
    (tmp_path / "7" / "smaps_rollup").write_text(text)

    assert 400 * 1024 == fleets.own_bytes(7, tmp_path)


def test_writing_to_the_disk_takes_time_and_leaves_nothing(tmp_path: Path) -> None:
    """It is measured where the server writes."""
    assert fsync_ms(tmp_path, writes=3) > 0
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize("size", [10, 100, 1_000, 10_000, 100_000, 1_000_000])
def test_chunks_are_full(size: int) -> None:
    """The program adds whole chunks alone, and each id once."""
    jobs, chunk = payloads.jobs_of(size)

    assert 0 == jobs % chunk
    assert jobs * size <= payloads.BUDGET


@pytest.mark.parametrize(
    ("first", "last", "factor", "expected"),
    [(1, 64, 4, [1, 4, 16, 64]), (1, 2, 4, [1, 2]), (1, 1, 4, [1]), (1000, 100_000, 10, [1000, 10_000, 100_000])],
)
def test_steps_end_with_the_number_that_was_asked_for(first: int, last: int, factor: int, expected: list[int]) -> None:
    """`--workers 50` measures 50 workers."""
    assert expected == face.steps(first, last, factor)


def test_a_report_has_every_part() -> None:
    """The report contains every measurement, and marks each figure that is estimated for another machine."""
    text = report(scale())
    titles = [line.removeprefix("### ") for line in text.splitlines() if line.startswith("### ")]

    assert [
        "Jobs that wait",
        "Busy workers",
        "Idle workers",
        "Serial queues",
        "Payloads",
        "The model: its parts",
        "The model: predictions and measurements",
        "The model: estimates",
    ] == titles
    estimates = text.partition("### The model: estimates")[2].splitlines()[6:]
    assert [6] * 27 == [line.count("est. ") for line in estimates if line]


def test_a_report_of_some_parts_leaves_out_the_others() -> None:
    """`--parts queues` is no table of nothing."""
    made = scale()
    text = report(Scale(date=made.date, machine=made.machine, command="x", conditions={}, queues=made.queues))

    assert ["### Serial queues"] == [line for line in text.splitlines() if line.startswith("#")]


def test_predictions_are_counted_without_the_one_that_was_fitted() -> None:
    """The fitted one is always right."""
    made = scale()
    made.checks = [check(100.0, 100.0, is_fitted=True), check(124.0, 100.0), check(126.0, 100.0), check(74.0, 100.0)]

    assert "1 of 3 predictions are within 25%" in report(made)


def test_a_run_beside_other_programs_is_marked() -> None:
    """Other programs on the machine distort the figures."""
    made = scale()
    calm = report(made)
    made.checks = [check(100.0, 100.0, others=1.5)]

    assert "Other programs" not in calm
    assert "**Other programs used more than 0.2 cores in 1 of these runs.**" in report(made)


def test_a_result_survives_a_file_unchanged(tmp_path: Path) -> None:
    """The page is generated from files."""
    made = scale()
    made.save(tmp_path / "scale.json")

    assert made == Scale.load(tmp_path / "scale.json")


def test_the_page_has_its_place() -> None:
    """It is found by comments."""
    assert face.PAGE.read_text() != docs.replaced(face.PAGE.read_text(), "scale", "other")


def test_the_command_in_a_result_names_no_folder() -> None:
    """A result is committed."""
    assert "make bench-scale ARGS='--most 1000'" == face.command(["--out", "/home/me/x.json", "--most", "1000"])


@pytest.mark.parametrize("path", sorted(face.FOLDER.glob("*.json")), ids=lambda path: path.name)
def test_a_committed_result_can_be_read(path: Path) -> None:
    """The page is generated from it."""
    assert Scale.load(path).conditions


def test_an_unknown_part_is_refused() -> None:
    """It is refused before anything is set up."""
    with pytest.raises(SystemExit):
        face.arguments(["--parts", "queues,quues"])


async def test_results_are_kept_row_by_row() -> None:
    """A run that fails keeps its results so far."""

    async def broken():
        yield 1
        await asyncio.sleep(0)
        raise RuntimeError

    rows: list[int] = []
    with pytest.raises(RuntimeError):
        await face.note(broken(), rows)

    assert [1] == rows
