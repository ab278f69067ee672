"""`_replace_jobs`: replaced jobs make room; the states are tested with the table of unique jobs."""

from tests.support.session import Session
from tests.support.unique import ask, hold, left


async def test_only_adds_that_have_an_existing_job_replace(sql: Session) -> None:
    """A job that was dropped has one too, a job that is simply added has none."""
    jobs = {task: await hold(sql, "available", task=task) for task in ("replace", "ignore", "reject")}
    done = {strategy: await ask(sql, {"on_conflict": strategy}, task=strategy) for strategy in jobs}
    new = await ask(sql, {"on_conflict": "replace"}, task="new")

    assert [done["replace"].existing_id, None] == [jobs["replace"], new.existing_id]
    assert {done["replace"].id, jobs["ignore"], jobs["reject"], new.id} == set(await left(sql))
