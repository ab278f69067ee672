"""`_partition`, `_gate`, `_partition_of`: the number of a limit and a hash of the key."""

from hashlib import sha256

import pytest

from tests.support.jobs import add
from tests.support.session import Session

LIMIT = "insert into asyncq._limits (id, name, at_once) values (7, 'tenants', 3)"


@pytest.mark.parametrize("limit", [1, 7, 32767])
@pytest.mark.parametrize("key", ["", "q", "ü", "a'b", "x" * 500])
async def test_a_partition_is_its_limit_and_48_bits_of_the_hash_of_its_key(sql: Session, limit: int, key: str) -> None:
    """It is stored, so it is the same on each server, and for the clients that compute it."""
    expected = limit << 48 | int.from_bytes(sha256(key.encode()).digest()[:6], "big")

    assert expected == await sql.value("select asyncq._partition($1::smallint, $2)", limit, key)
    assert limit == expected >> 48


async def test_the_gate_of_a_limit_comes_after_its_partitions(sql: Session) -> None:
    """The partitions of a limit are a range, of which the gate is the last number."""
    assert [(1 << 48) - 1, 7] == [
        await sql.value("select asyncq._gate(0::smallint)"),
        await sql.value("select asyncq._gate(7::smallint) >> 48"),
    ]


async def test_a_job_has_the_partition_of_its_queue_else_that_of_its_key(sql: Session) -> None:
    """A job without a queue, whose task has no limit, has none. A key that is missing is the empty key."""
    await sql.execute(f"""
        {LIMIT};
        select asyncq._store_tasks('{{limited,free}}');
        update asyncq._tasks set limit_id = 7, by = '{{of,tenant}}' where identifier = 'limited'""")
    payload = '{"of": {"tenant": "acme"}}'
    jobs = {
        await add(sql, "free"): None,
        await add(sql, "free", queue="q"): (1, "q"),
        await add(sql, "limited", payload=payload): (7, "acme"),
        await add(sql, "limited", payload='{"of": 1}'): (7, ""),
        await add(sql, "limited", payload=payload, queue="q"): (1, "q"),
    }
    expected = {
        job: named and await sql.value("select asyncq._partition($1::smallint, $2)", *named)
        for job, named in jobs.items()
    }

    assert expected == {row["id"]: row["partition"] for row in await sql.rows("select id, partition from asyncq._jobs")}


async def test_a_task_that_is_paused_without_a_limit_is_one_partition(sql: Session) -> None:
    """Its jobs have no key; its name keeps them apart from those of other paused tasks."""
    await sql.execute("select asyncq._store_tasks('{a,b}'); update asyncq._tasks set limit_id = 2")
    await add(sql, "a")
    await add(sql, "b", payload='{"x": 1}')

    assert await sql.values("select asyncq._partition(2::smallint, key) from unnest(array['a', 'b']) as key") == (
        await sql.values("select partition from asyncq._jobs order by id")
    )
