"""`_wake_partitions`: each job that becomes ready later is found then, whatever is found before it."""

from tests.support.jobs import add_many, complete, fetch
from tests.support.session import Session


async def test_jobs_that_one_statement_adds_for_different_times_are_all_found(sql: Session) -> None:
    """A look at the queue that finds no due job leaves nothing for the later ones: each time has its own wakeup."""
    await add_many(sql, 2, queue="'q'", run_at="asyncq.now() + i * interval '1 h'")
    found: list[int] = []
    for minutes in (0, 61, 62, 121, 122):
        moment = await sql.value(f"select asyncq.now() + interval '{minutes} min'")
        claims = await fetch(sql, now=moment)
        await complete(sql, claims)
        found.append(len(claims))

    assert [0, 1, 0, 1, 0] == found


async def test_due_jobs_of_one_kind_share_a_wakeup(sql: Session) -> None:
    """Whoever looks at one of them finds the others."""
    await add_many(sql, 3, queue="'q'", run_at="asyncq.now() - i * interval '1 h'")

    assert 1 == await sql.value("select count(*) from asyncq._wakeups")
