"""`_add_slots`: each slot becomes a job once, and a bad item costs the others nothing."""

import json

from tests.support.session import Session
from tests.support.slots import add_slots, at, jobs, last

OPTIONS = {"max_attempts": 3, "job_key": "k", "priority": -3, "flags": {"f": True}}
NUL = '{"a": "\\u0000"}'


async def test_slots_become_jobs_in_their_order_due_at_their_time(sql: Session) -> None:
    """Ids follow the order of the call: equal jobs run in it."""
    rows = await add_slots(sql, ("b", 2), ("a", 2), ("b", 3))

    assert [("b", 2), ("a", 2), ("b", 3)] == await jobs(sql)
    assert [(1, "added"), (2, "added"), (3, "added")] == [(row["ord"], row["outcome"]) for row in rows]
    assert await sql.values("select id from asyncq._jobs order by id") == [row["id"] for row in rows]


async def test_slots_that_were_added_before_are_left_out(sql: Session) -> None:
    """The positions of the answer are those of the call."""
    await add_slots(sql, ("a", 1), ("b", 2))

    rows = await add_slots(sql, ("a", 1), ("a", 2), ("b", 2), ("b", 3))

    assert [2, 4] == [row["ord"] for row in rows]
    assert [("a", 1), ("b", 2), ("a", 2), ("b", 3)] == await jobs(sql)
    assert [] == await add_slots(sql, ("a", 1), ("b", 3))


async def test_a_job_has_all_fields_of_its_item(sql: Session) -> None:
    """Each column is stored in its own job, even if earlier slots are left out."""
    await add_slots(sql, ("a", 1))
    await add_slots(
        sql,
        ("a", 1),
        ("b", 1),
        identifiers=["x", "t"],
        payloads=["{}", '{"a": 1}'],
        queue_names=["x", "q"],
        extras=['{"job_key": "x"}', json.dumps(OPTIONS)],
    )

    row = await sql.row("""
        select task_identifier, queue_name, max_attempts, key, priority, flags, run_at,
          (select payload::text from asyncq._jobs as job where job.id = jobs.id)
        from asyncq.jobs where key is not null""")

    assert ("t", "q", 3, "k", -3) == tuple(row)[:5]
    assert ({"f": True}, at(1), {"a": 1}) == (json.loads(row[5]), row[6], json.loads(row[7]))


async def test_a_bad_item_costs_the_others_nothing(sql: Session) -> None:
    """Its own slots stay unclaimed: another worker may know better what to do with them."""
    rows = await add_slots(sql, ("a", 1), ("bad", 1), ("bad", 2), ("b", 1), payloads=["{}", NUL, "{}", "{}"])

    assert [("a", 1), ("b", 1)] == await jobs(sql)
    assert [("a", 1), ("b", 1)] == await last(sql)
    assert [(1, None), (2, "GWBPL"), (4, None)] == [(row["ord"], row["code"]) for row in rows]
    assert "payload holds \\u0000, which PostgreSQL cannot store as text" == rows[1]["said"]


async def test_a_bad_item_fails_alone(sql: Session) -> None:
    """It gets a row of its own, not an error that would end the scheduler."""
    (row,) = await add_slots(sql, ("bad", 1), extras=['{"max_attempts": 0}'])

    assert (1, None, None, "GWBMA") == tuple(row)[:4]
    assert ([], []) == (await jobs(sql), await last(sql))


async def test_items_that_share_a_job_key_change_one_job(sql: Session) -> None:
    """Any two adds with one key do so. Both slots are used up."""
    rows = await add_slots(sql, ("a", 1), ("b", 1), extras=['{"job_key": "k"}'] * 2)

    assert ["added", "updated"] == [row["outcome"] for row in rows]
    assert [("b", 1)] == await jobs(sql)
    assert [("a", 1), ("b", 1)] == await last(sql)


async def test_no_slots_are_no_jobs(sql: Session) -> None:
    """Most minutes have none."""
    assert [] == await add_slots(sql)
