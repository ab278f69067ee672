"""`_batched_queues`: the queues whose jobs run in batches."""

from tests.support.jobs import add, complete, fetch, locked_queues
from tests.support.session import Session

QUEUES = "select queue from asyncq._batched_queues() as queue order by queue"


async def test_they_are_those_of_existing_claims(sql: Session) -> None:
    """Ended, waiting and row claims do not count. Jobs without a queue have none."""
    for queue in ("a", "b", "c", "c", None):
        await add(sql, queue=queue)
    batched = await fetch(sql, 2, form="batched")
    mixed = await fetch(sql, form="batched")
    await add(sql, queue="in a row")
    await fetch(sql)

    assert (["a", "b"], ["c", None]) == ([job["queue"] for job in batched], [job["queue"] for job in mixed])
    assert ["a", "b", "c"] == await sql.values(QUEUES)
    await complete(sql, [batched[0], mixed[1]])
    assert (["b", "c"], ["b", "c", "in a row"]) == (await sql.values(QUEUES), await locked_queues(sql))


async def test_a_batch_without_queues_has_none(sql: Session) -> None:
    """Batches of the short form have none."""
    await add(sql)
    await fetch(sql, form="batched")

    assert (1, []) == (await sql.value("select count(*) from asyncq._batches"), await sql.values(QUEUES))
