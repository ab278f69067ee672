"""`_run_cron_item`: the job is what the item says, and what a worker told of its task."""

import json

from tests.support.cron_items import add_item, declare
from tests.support.session import Session

RUN = "select outcome, existing_id, existing_state from asyncq._run_cron_item('a')"
JOB = """
select jobs.*, job.payload::text as payload
from asyncq.jobs join asyncq._jobs as job using (id) order by id desc limit 1"""


async def test_a_stored_item_is_run_as_it_says(sql: Session) -> None:
    """Each option, and the mark last; one in the payload does not count."""
    payload = {"b": 1.50, "_cron": 1, "a": "é"}
    await add_item(
        sql,
        payload=payload,
        queue="q",
        max_attempts=3,
        priority=-2,
        flags=["f", "g"],
        job_key="k",
        job_key_mode="replace",
    )
    assert ("added", None, None) == tuple(await sql.row(RUN))
    row = await sql.row(JOB)

    assert ("q", 3, -2, "k", {"f": True, "g": True}) == (
        row["queue_name"],
        row["max_attempts"],
        row["priority"],
        row["key"],
        json.loads(row["flags"]),
    )
    stored = json.loads(row["payload"])
    assert ["a", "b", "_cron"] == [*stored]
    assert {"ts", "backfilled"} == stored["_cron"].keys()
    assert ("Z", 24, False) == (stored["_cron"]["ts"][-1], len(stored["_cron"]["ts"]), stored["_cron"]["backfilled"])


async def test_what_a_worker_told_of_its_job_goes_before(sql: Session) -> None:
    """It is the definition with the defaults of the task."""
    await add_item(sql, queue="q")
    await sql.execute("""update asyncq._cron_items set job = '{"queue": "q", "max_attempts": 9, "flags": ["f"]}'""")
    await sql.rows(RUN)
    row = await sql.row(JOB)

    assert ("q", 9, {"f": True}) == (row["queue_name"], row["max_attempts"], json.loads(row["flags"]))


async def test_an_item_of_a_live_worker_goes_before_a_stored_one(sql: Session) -> None:
    """As at its slots; of several workers, the one that started last."""
    await add_item(sql, payload={"stored": 1})
    await declare(sql, a={"task": "old"})
    await declare(sql, a={"task": "new", "payload": {"x": 1}})
    await sql.rows(RUN)
    row = await sql.row(JOB)

    assert ("new", ["x", "_cron"]) == (row["task_identifier"], [*json.loads(row["payload"])])


async def test_the_overlap_is_that_of_the_slots(sql: Session) -> None:
    """A job of a slot bars the run by hand, and the other way round."""
    await add_item(sql, overlap="skip")
    await sql.rows(RUN)
    again = await sql.row(RUN)

    assert ("deduplicated", "available") == (again["outcome"], again["existing_state"])


async def test_the_policy_of_the_task_sees_the_payload(sql: Session) -> None:
    """The same key as that of any add."""
    policy = {"keys": ["args"], "args_keys": ["x"], "on_conflict": "ignore"}
    await declare(sql, a={"task": "t", "payload": {"x": 1}, "job": {"options": {"unique": policy}}})
    await sql.rows(
        "select asyncq.add_job('t', '{\"x\": 1}', options := $1::text::jsonb)", json.dumps({"unique": policy})
    )

    assert "deduplicated" == (await sql.row(RUN))["outcome"]
