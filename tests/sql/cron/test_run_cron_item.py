"""`run_cron_item`: the job of an item as the view shows it."""

import json

from tests.support.cron_items import add_item, declare
from tests.support.session import Session

RUN = "select ran.* from asyncq.run_cron_item('a') as ran"


async def test_the_job_comes_back(sql: Session) -> None:
    """As from `add_job`; no slot is used up."""
    await add_item(sql, "a", queue="q")
    row = await sql.row(RUN)

    assert ("t", "q") == (row["task_identifier"], row["queue_name"])
    assert None is await sql.value("select last_execution from asyncq.known_crontabs")


async def test_with_skip_the_job_that_is_there_comes_back(sql: Session) -> None:
    """One call or two: the same job."""
    await add_item(sql, "a", overlap="skip")

    assert (await sql.row(RUN))["id"] == (await sql.row(RUN))["id"]


async def test_a_policy_that_rejects_is_an_error_with_the_other_job(sql: Session) -> None:
    """As in `add_job`."""
    await declare(sql, a={"task": "t", "job": {"options": {"unique": {"on_conflict": "reject"}}}})
    first = (await sql.row(RUN))["id"]
    error = await sql.refusal(RUN)

    assert ("GWBDJ", {"id": first, "state": "available"}) == (error.sqlstate, json.loads(error.detail or ""))


async def test_an_item_that_is_not_there_cannot_be_run(sql: Session) -> None:
    """Nor one of whose worker only the name is left."""
    nobody = await sql.refusal(RUN)
    await sql.execute("insert into asyncq.known_crontabs values ('a', now())")
    gone = await sql.refusal(RUN)

    assert ("GWBCN", "GWBCN") == (nobody.sqlstate, gone.sqlstate)
