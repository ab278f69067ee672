"""`_add_in_pieces` without policies: a job key several times in one call, as if the jobs were added one by one."""

import random
from collections.abc import Sequence
from typing import Any

import pytest

from tests.support.keyed import KEY, MODES, STATES, Done, Spec, add_all, add_one, hold, names, stored
from tests.support.session import Session

TIMES = (None, "2040-01-01 00:00:00+00", "2000-01-01 00:00:00+00")
PAYLOADS = (None, "[1]", "[2, 3]", "[ ]", "{}", "null", '{"a":  1}')


async def one_by_one(sql: Session, specs: Sequence[Spec]) -> list[Done]:
    """Add jobs in as many calls."""
    return [(await add_all(sql, [spec]))[0] for spec in specs]


async def outcome(
    sql: Session, adder: Any, specs: Sequence[Spec]
) -> tuple[list[Done], list[dict[str, Any]], list[str]]:
    """Add specs and roll back. Returns answers, rows and names, with the ids in their order from 1."""
    transaction = sql.connection.transaction()
    await transaction.start()
    done = await adder(sql, specs)
    rows = await stored(sql)
    numbers = {id_: number for number, id_ in enumerate(rows, 1)}
    found = (
        [one._replace(id=numbers[one.id], existing_id=numbers.get(one.existing_id)) for one in done],
        [{**row, "id": numbers[row["id"]]} for row in rows.values()],
        await names(sql),
    )
    await transaction.rollback()
    return found


def any_spec(rng: random.Random) -> Spec:
    """A spec whose key others may have."""
    return Spec(
        rng.choice("abc"),
        rng.choice(PAYLOADS),
        rng.choice((None, "q", "r")),
        rng.choice(TIMES),
        rng.choice((None, 3)),
        rng.choice((KEY, KEY, "l", "m", None)),
        rng.choice((None, -1, 1)),
        rng.choice((None, '{"f": true}')),
        rng.choice((*MODES, None)),
        rng.choice((None, '{"m": 1}')),
    )


@pytest.mark.parametrize("seed", range(60))
async def test_a_call_is_as_if_its_jobs_were_added_one_by_one(sql: Session, seed: int) -> None:
    """Rows, answers, names and the order of the ids agree, for each holder of the keys and each mix of modes."""
    rng = random.Random(seed)
    for key in (KEY, "l"):
        state = rng.choice((None, *STATES))
        if state:
            await hold(sql, state, rng.choice(("[0]", "{}")), key=key)
    specs = [any_spec(rng) for _ in range(rng.randint(2, 12))]

    assert await outcome(sql, one_by_one, specs) == await outcome(sql, add_all, specs)


@pytest.mark.parametrize("mode", ["replace", "preserve_run_at"])
async def test_arrays_of_one_call_are_joined_in_its_order(sql: Session, mode: str) -> None:
    """Five events of one batch."""
    done = await add_all(sql, [Spec(payload=f"[{i}]", mode=mode) for i in range(5)])
    (row,) = (await stored(sql)).values()

    assert ("[0, 1, 2, 3, 4]", 4) == (row["payload"], row["revision"])
    assert ["added", *["updated"] * 4] == [one.outcome for one in done]
    assert {row["id"]} == {one.id for one in done}


async def test_the_second_job_of_a_call_sees_the_first(sql: Session) -> None:
    """The state is the current one: a job that was added just before waits already."""
    first, second, third = await add_all(
        sql, [Spec(run_at="2040-01-01 00:00:00+00"), Spec(), Spec(mode="unsafe_dedupe")]
    )

    assert Done("added", first.id) == first
    assert Done("updated", first.id, first.id, "scheduled") == second
    assert Done("deduplicated", first.id, first.id, "available") == third


async def test_a_key_moves_once_from_a_job_that_runs(sql: Session) -> None:
    """The first request that wants a job gets a new one, later ones change it; the ones before are refused."""
    old = await hold(sql, "active")
    modes = ("unsafe_dedupe", "unsafe_dedupe", "replace", "unsafe_dedupe", "replace")
    done = await add_all(sql, [Spec(mode=mode) for mode in modes])
    rows = await stored(sql)
    new = max(rows)

    assert [
        Done("deduplicated", old["id"], old["id"], "active"),
        Done("deduplicated", old["id"], old["id"], "active"),
        Done("added", new, old["id"], "active"),
        Done("deduplicated", new, new, "available"),
        Done("updated", new, new, "available"),
    ] == done
    assert (6, None, 2, KEY) == (
        rows[old["id"]]["revision"],
        rows[old["id"]]["key"],
        rows[new]["revision"],
        rows[new]["key"],
    )


async def test_new_jobs_have_ids_in_the_order_of_the_specs_behind_refused_ones(sql: Session) -> None:
    """A key whose first request is refused must not let the later specs overtake it."""
    await hold(sql, "active")
    done = await add_all(sql, [Spec(mode="unsafe_dedupe"), Spec(), Spec(key=None), Spec(key="b"), Spec(key="b")])
    ids = [one.id for one in done if one.outcome == "added"]

    assert 3 == len(ids)
    assert sorted(ids) == ids


async def test_a_change_of_mode_within_a_call(sql: Session) -> None:
    """preserve_run_at keeps what the line above has set."""
    times = ("2041-01-01 00:00:00+00", "2042-01-01 00:00:00+00", "2043-01-01 00:00:00+00")
    await add_all(
        sql,
        [
            Spec(run_at=at, mode=mode)
            for at, mode in zip(times, ("preserve_run_at", "replace", "preserve_run_at"), strict=True)
        ],
    )

    assert [2042] == [row["run_at"].year for row in (await stored(sql)).values()]


async def test_jobs_without_a_key_are_never_one(sql: Session) -> None:
    """Nulls are not equal."""
    done = await add_all(sql, [Spec(key=None), Spec(), Spec(key=None), Spec(), Spec(key=None)])

    assert ["added", "added", "added", "updated", "added"] == [one.outcome for one in done]
    assert 4 == len(await stored(sql))


async def test_add_jobs_returns_a_job_once_for_each_of_its_specs(sql: Session) -> None:
    """The row is its last state; graphile-worker raises 21000."""
    rows = await sql.rows("""
        select id, key, revision from asyncq.add_jobs(array[
          ('t', '[1]', null, null, null, 'k', null, null, null, null)::asyncq.job_spec,
          ('t', null, null, null, null, null, null, null, null, null)::asyncq.job_spec,
          ('t', '[2]', null, null, null, 'k', null, null, null, null)::asyncq.job_spec])""")

    assert rows[0] == rows[2]
    assert [("k", 1), (None, 0), ("k", 1)] == [(row["key"], row["revision"]) for row in rows]


async def test_one_bad_spec_of_a_key_refuses_the_others(sql: Session) -> None:
    """All are added or none."""
    await add_one(sql, payload="[0]")
    error = await sql.refusal("""
        select asyncq.add_jobs(array[
          ('t', '[1]', null, null, null, 'k', null, null, null, null)::asyncq.job_spec,
          ('t', '[2]', null, null, 0, 'k', null, null, null, null)::asyncq.job_spec])""")

    assert ("GWBMA", "Job 2 of 2.") == (error.sqlstate, error.detail)
    assert ["[0]"] == [row["payload"] for row in (await stored(sql)).values()]


async def test_a_thousand_jobs_of_one_key_in_one_call(sql: Session) -> None:
    """Slow is allowed, an error is not."""
    done = await add_all(sql, [Spec(payload=f"[{i}]") for i in range(1000)])
    (row,) = (await stored(sql)).values()

    assert str(list(range(1000))) == row["payload"]
    assert 1000 == len(done)
