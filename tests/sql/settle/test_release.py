"""`_release`: claims end, each in its own way, and the queues of their jobs are free."""

from typing import Any

import pytest

from tests.support.jobs import WORKER, add, claimed, fetch, locked_queues, stray_queues
from tests.support.marked import ASK_AGAIN, CANCEL, ended, keep
from tests.support.session import Session

RELEASE = "select id, ending from asyncq._release($1, $2, $3, $4, $5, $6, $7, $8, payloads => $9) order by id"
RECORDED = "select job_id, number, kind, worker_id, error from asyncq.attempts order by job_id"
COLUMNS = "attempts, attempts_made, run_at - asyncq.now() as wait, last_error, interruptions"


async def release(
    sql: Session,
    ids: list[int | None],
    *,
    ends: list[str | None] | None = None,
    attempts: list[int | None] | None = None,
    delays_s: list[float | None] | None = None,
    errors: list[str | None] | None = None,
    interruptions: list[int | None] | None = None,
    kinds: list[str | None] | None = None,
    durations_s: list[float | None] | None = None,
    payloads: list[str | None] | None = None,
) -> list[tuple[int, str]]:
    """Release claims. Returns the id and the ending of each."""
    values = (ends, attempts, delays_s, errors, interruptions, kinds, durations_s, payloads)
    rows = await sql.rows(RELEASE, ids, *values)
    return [tuple(row) for row in rows]


async def values(sql: Session, job: int) -> tuple[Any, ...]:
    """The columns that a release may change; the wait in seconds."""
    (row,) = await sql.rows(f"select {COLUMNS} from asyncq._jobs where id = $1", job)
    return tuple(row["wait"].total_seconds() if name == "wait" else value for name, value in row.items())


async def test_each_claim_ends_in_its_own_way(sql: Session) -> None:
    """They are in one call, with skipped positions."""
    cancelled, again, done, kept, failed, late = [await add(sql) for _ in range(6)]
    await keep(sql, kept)
    await keep(sql, late)
    await fetch(sql)
    await sql.rows(CANCEL, cancelled)
    await sql.rows(ASK_AGAIN, again)
    endings = await release(
        sql,
        [cancelled, None, again, done, kept, failed, late],
        ends=[None, "completed", None, "completed", "completed", None, "cancelled"],
        attempts=[None, 7, None, None, None, 1, 1],
    )

    assert endings == [
        (cancelled, "cancelled"),
        (again, "rerun"),
        (done, "written"),
        (kept, "written"),
        (failed, "written"),
        (late, "cancelled"),
    ]
    assert ([], [again, failed]) == (await claimed(sql), await sql.values("select id from asyncq._jobs order by id"))
    assert [(kept, "completed"), (late, "cancelled")] == await ended(sql)


async def test_a_missing_array_or_element_leaves_its_column_as_it_is(sql: Session) -> None:
    """A rescue then need not know the values of an earlier failure."""
    first, second = await add(sql), await add(sql)
    await fetch(sql)
    await sql.execute("update asyncq._jobs set attempts = 2, last_error = 'earlier', interruptions = 3")
    before = await values(sql, first)
    await release(sql, [first])
    await fetch(sql)
    await release(sql, [first, second], attempts=[None, 1], errors=[None, "later"], interruptions=[None, 4])

    assert (before, (3, None, 0.0, "later", 4)) == (await values(sql, first), await values(sql, second))


@pytest.mark.parametrize(("run_at", "wait_s"), [("asyncq.now() - interval '1 h'", 60.0), ("asyncq.now()", 60.0)])
async def test_a_delay_counts_from_now(sql: Session, run_at: str, wait_s: float) -> None:
    """A job that was due long ago must not be due at once."""
    job = await add(sql, run_at=run_at)
    await fetch(sql)
    await release(sql, [job], delays_s=[60.0])

    assert wait_s == (await values(sql, job))[2]


async def test_a_delay_counts_from_the_time_of_the_job_if_that_is_later(sql: Session) -> None:
    """It was moved while the job ran."""
    job = await add(sql)
    await fetch(sql)
    await sql.execute("update asyncq._jobs set run_at = asyncq.now() + interval '10 s'")
    await release(sql, [job], delays_s=[60.0])

    assert 70.0 == (await values(sql, job))[2]


@pytest.mark.parametrize(
    ("attempts", "limit", "added", "expected"),
    [
        pytest.param(0, 25, 1, (1, None), id="a failure"),
        pytest.param(2, 3, 25, (3, 3), id="discarded: all attempts are used up, one was made"),
        pytest.param(5, 3, 1, (5, None), id="used up meanwhile"),
        pytest.param(2, 25, 0, (2, None), id="no attempt"),
    ],
)
async def test_attempts_are_added_up_to_the_limit(
    sql: Session, attempts: int, limit: int, added: int, expected: tuple[int, int | None]
) -> None:
    """A job whose attempts were used up while it ran stays discarded."""
    job = await add(sql)
    await fetch(sql)
    await sql.execute(f"update asyncq._jobs set attempts = {attempts}, max_attempts = {limit}")
    await release(sql, [job], attempts=[added])

    assert expected == (await values(sql, job))[:2]


@pytest.mark.parametrize("ends", [None, ["completed"]])
async def test_a_queue_is_free_when_its_claim_ends(sql: Session, ends: list[str | None] | None) -> None:
    """The number of its claims that run is what a fetch counts."""
    job, other = await add(sql, queue="q"), await add(sql, queue="other")
    await fetch(sql)
    await release(sql, [job], ends=ends)

    assert (["other"], [], [other]) == (await locked_queues(sql), await stray_queues(sql), await claimed(sql))


async def test_a_job_that_was_rerun_and_then_cancelled_is_cancelled(sql: Session) -> None:
    """The cancellation was last. It also wins over a remaining rerun."""
    job = await add(sql)
    await fetch(sql)
    await sql.rows(CANCEL, job)
    await sql.rows(ASK_AGAIN, job)

    assert [(job, "cancelled")] == await release(sql, [job])
    assert 0 == await sql.value("select count(*) from asyncq._jobs")


@pytest.mark.parametrize(("states", "kept"), [(["cancelled"], True), (["completed", "discarded"], False)])
async def test_a_cancelled_job_is_kept_if_that_was_asked_for(sql: Session, states: list[str], kept: bool) -> None:
    """A unique policy may count cancelled jobs."""
    job = await add(sql)
    await keep(sql, job, states)
    await fetch(sql)
    await sql.rows(CANCEL, job)
    await release(sql, [job])

    assert ([(job, "cancelled")] if kept else []) == await ended(sql)


@pytest.mark.parametrize(
    ("values", "is_left"),
    [
        ({}, True),
        ({"attempts": [0]}, True),
        ({"attempts": [1]}, False),
        ({"attempts": [0], "interruptions": [0]}, False),
        ({"interruptions": [1]}, False),
    ],
    ids=str,
)
async def test_a_job_cannot_expire_once_a_run_began(sql: Session, values: dict[str, Any], is_left: bool) -> None:
    """A returned claim never began: it brings neither attempts nor interruptions."""
    job = await add(sql)
    await sql.execute("update asyncq._jobs set expires_at = now() + interval '1 h'")
    await fetch(sql)
    await release(sql, [job], **values)

    assert is_left == await sql.value("select expires_at is not null from asyncq._jobs")


async def recorded(sql: Session) -> list[tuple[Any, ...]]:
    """The failed attempts that are recorded: job, number, kind, worker and error of each."""
    return [tuple(row) for row in await sql.rows(RECORDED)]


async def test_only_jobs_that_wait_again_get_a_row_of_their_failed_attempt(sql: Session) -> None:
    """A cancelled job, one that runs again, and one that ended have no failed attempt; one without a kind neither."""
    cancelled, again, done, failed, returned = [await add(sql) for _ in range(5)]
    await fetch(sql)
    await sql.rows(CANCEL, cancelled)
    await sql.rows(ASK_AGAIN, again)
    await release(
        sql,
        [cancelled, again, done, None, failed, returned],
        ends=[None, None, "completed", None, None, None],
        errors=["e"] * 6,
        kinds=[*["failed"] * 5, None],
    )

    assert [(failed, 1, "failed", WORKER, "e")] == await recorded(sql)


async def test_a_failed_attempt_began_as_long_ago_as_it_took(sql: Session) -> None:
    """Only the worker knows when the handler began. For a lost attempt the claim's time is the best that is known."""
    measured, lost = await add(sql), await add(sql)
    await fetch(sql)
    await sql.execute("update asyncq._jobs set locked_at = asyncq.now() - interval '1 h'")
    await release(sql, [measured, lost], errors=["e", "e"], kinds=["failed", "lost"], durations_s=[1.5, None])
    rows = await sql.rows("select ended_at - started_at, ended_at = now() from asyncq.attempts order by job_id")

    assert [(1.5, True), (3600.0, True)] == [(took.total_seconds(), is_now) for took, is_now in rows]


@pytest.mark.parametrize(("attempts", "made", "number"), [(0, None, 1), (2, None, 3), (25, 2, 3), (32767, None, 32768)])
async def test_a_failed_attempt_has_the_number_of_its_run(
    sql: Session, attempts: int, made: int | None, number: int
) -> None:
    """A job whose key was taken has lost its further attempts, and made fewer. The last number is no smallint."""
    job = await add(sql)
    await fetch(sql)
    await sql.rows("update asyncq._jobs set attempts = $1, attempts_made = $2", attempts, made)
    await release(sql, [job], attempts=[1], errors=["e"], kinds=["failed"])

    assert [(job, number, "failed", WORKER, "e")] == await recorded(sql)


async def test_a_long_error_of_an_attempt_is_cut_in_the_middle(sql: Session) -> None:
    """Its message is at the beginning, the line that raised at the end."""
    fits, long = await add(sql), await add(sql)
    await fetch(sql)
    texts = ["é" * 4000, "begin" + "é" * 4000 + "end"]
    await release(sql, [fits, long], errors=texts, kinds=["failed", "failed"])
    whole, cut = [row[-1] for row in await recorded(sql)]

    assert texts[0] == whole
    assert (True, True) == (cut.startswith("begin"), cut.endswith("end"))
    assert 3900 < len(cut) <= 4000


async def test_the_attempt_of_another_job_with_the_same_id_stops_no_settlement(sql: Session) -> None:
    """Rows were brought from another server without their sequences: then the error of the new claim is left out."""
    job = await add(sql)
    (claim,) = await fetch(sql)
    await sql.rows(
        """
        insert into asyncq._attempts (job_id, lock_token, started_at, ended_at, worker_id, number, kind, error)
        values ($1, $2, now(), now(), $3, 1, 'failed', 'foreign')""",
        job,
        claim["lock_token"],
        WORKER,
    )

    assert [(job, "written")] == await release(sql, [job], attempts=[1], errors=["e"], kinds=["failed"])
    assert [(job, 1, "failed", WORKER, "foreign")] == await recorded(sql)


async def test_a_payload_replaces_that_of_its_job_alone(sql: Session) -> None:
    """It has the items that are left to do, as they were written."""
    left, other = await add(sql, payload="[1, 2, 3]"), await add(sql, payload="[4]")
    await fetch(sql)
    await release(sql, [left, other], attempts=[1, 1], payloads=['[1.0,{"b":1,"a":2}]', None])

    assert ['[1.0,{"b":1,"a":2}]', "[4]"] == await sql.values("select payload::text from asyncq._jobs order by id")


@pytest.mark.parametrize(
    ("payload", "end", "rest", "again", "then"),
    [
        pytest.param("[1,2]", None, "[2]", "[3]", "[2,3]", id="some items failed"),
        pytest.param("[1,2]", None, None, "[3]", "[1,2,3]", id="none is done"),
        pytest.param("[1,2]", "completed", None, "[3]", "[3]", id="completed"),
        pytest.param("[1e400000]", None, None, '[{"b":1,"a":1}]', '[1e400000,{"b":1,"a":1}]', id="no number of jsonb"),
        pytest.param("[]", None, None, "[]", "[]", id="empty"),
        pytest.param('{"a":1}', None, None, "[3]", "[3]", id="no array"),
        pytest.param("[1,2]", None, None, '{"a":1}', '{"a":1}', id="asked for no array"),
    ],
)
async def test_the_items_that_a_run_has_left_come_before_those_of_the_rerun(
    sql: Session, payload: str, end: str | None, rest: str | None, again: str, then: str
) -> None:
    """A request with a job key joins arrays too: no item is lost."""
    job = await add(sql, payload=payload)
    await fetch(sql)
    await sql.rows("update asyncq._jobs set rerun = $2 where id = $1", job, again)

    assert [(job, "rerun")] == await release(sql, [job], ends=[end], attempts=[1], payloads=[rest])
    assert [(then, 0)] == [tuple(row) for row in await sql.rows("select payload::text, attempts from asyncq._jobs")]
