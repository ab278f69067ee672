"""`run_cron_item` and `_run_cron_item`: the job of an item, with the options that a worker registered for its task."""

import json

from tests.support.cron_items import add_item, declare
from tests.support.session import Session

RUN = "select ran.* from asyncq.run_cron_item('a') as ran"


async def test_the_job_is_returned(sql: Session) -> None:
    """The row is that of `add_job`. No slot is used up."""
    await add_item(sql, "a", queue="q")
    row = await sql.row(RUN)

    assert ("t", "q") == (row["task_identifier"], row["queue_name"])
    assert None is await sql.value("select last_execution from asyncq.known_crontabs")


async def test_with_skip_the_existing_job_is_returned(sql: Session) -> None:
    """It is the same job after one call or two."""
    await add_item(sql, "a", overlap="skip")

    assert (await sql.row(RUN))["id"] == (await sql.row(RUN))["id"]


async def test_a_policy_that_rejects_is_an_error_with_the_other_job(sql: Session) -> None:
    """`add_job` raises the same error."""
    await declare(sql, a={"task": "t", "job": {"options": {"unique": {"on_conflict": "reject"}}}})
    first = (await sql.row(RUN))["id"]
    error = await sql.refusal(RUN)

    assert ("GWBDJ", {"id": first, "state": "available"}) == (error.sqlstate, json.loads(error.detail or ""))


async def test_a_missing_item_cannot_be_run(sql: Session) -> None:
    """A name that a former worker left behind is no item either."""
    nobody = await sql.refusal(RUN)
    await sql.execute("insert into asyncq.known_crontabs values ('a', now())")
    gone = await sql.refusal(RUN)

    assert ("GWBCN", "GWBCN") == (nobody.sqlstate, gone.sqlstate)


RUN_ITEM = "select outcome, existing_id, existing_state from asyncq._run_cron_item('a')"
JOB = """
select jobs.*, job.payload::text as payload
from asyncq.jobs join asyncq._jobs as job using (id) order by id desc limit 1"""


async def test_a_stored_item_is_run_as_defined(sql: Session) -> None:
    """All options apply, and the mark is last. A mark in the payload does not count."""
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
    assert ("added", None, None) == tuple(await sql.row(RUN_ITEM))
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


async def test_the_job_that_a_worker_reported_has_priority(sql: Session) -> None:
    """It has the defaults of the task as well."""
    await add_item(sql, queue="q")
    await sql.execute("""update asyncq._cron_items set job = '{"queue": "q", "max_attempts": 9, "flags": ["f"]}'""")
    await sql.rows(RUN_ITEM)
    row = await sql.row(JOB)

    assert ("q", 9, {"f": True}) == (row["queue_name"], row["max_attempts"], json.loads(row["flags"]))


async def test_an_item_of_a_live_worker_has_priority_over_a_stored_one(sql: Session) -> None:
    """Slots do the same. Of several workers, the one that started last decides."""
    await add_item(sql, payload={"stored": 1})
    await declare(sql, a={"task": "old"})
    await declare(sql, a={"task": "new", "payload": {"x": 1}})
    await sql.rows(RUN_ITEM)
    row = await sql.row(JOB)

    assert ("new", ["x", "_cron"]) == (row["task_identifier"], [*json.loads(row["payload"])])


async def test_the_overlap_is_that_of_the_slots(sql: Session) -> None:
    """A job of a slot prevents a run by hand, and the other way round."""
    await add_item(sql, overlap="skip")
    await sql.rows(RUN_ITEM)
    again = await sql.row(RUN_ITEM)

    assert ("deduplicated", "available") == (again["outcome"], again["existing_state"])


async def test_the_policy_of_the_task_sees_the_payload(sql: Session) -> None:
    """The same key as that of any add."""
    policy = {"keys": ["args"], "args_keys": ["x"], "on_conflict": "ignore"}
    await declare(sql, a={"task": "t", "payload": {"x": 1}, "job": {"options": {"unique": policy}}})
    await sql.rows(
        "select asyncq.add_job('t', '{\"x\": 1}', options := $1::text::jsonb)", json.dumps({"unique": policy})
    )

    assert "deduplicated" == (await sql.row(RUN_ITEM))["outcome"]
