"""`_add_first_of_each_key`: the first job of each key answers the others; `_all_ask_alike` says for which calls."""

from tests.support.keyed import Done
from tests.support.session import Session
from tests.support.unique import ask_all, hold, spec

IGNORE = {"on_conflict": "ignore"}


async def test_the_first_one_is_added_and_the_others_find_it(sql: Session) -> None:
    """Each gets the answer for its strategy. Jobs without a policy are added between them."""
    specs = [spec(IGNORE), spec(), spec({}), spec(IGNORE, task="u"), spec(IGNORE), spec()]
    done = await ask_all(sql, specs)
    first, second, third, last = (done[place].id for place in (0, 1, 3, 5))

    assert [
        Done("added", first),
        Done("added", second),
        Done("rejected", first, first, "available"),
        Done("added", third),
        Done("deduplicated", first, first, "available"),
        Done("added", last),
    ] == done
    assert [first, second, third, last] == await sql.values("select id from asyncq._jobs order by id")


async def test_the_job_that_conflicts_with_the_first_one_conflicts_with_the_others(sql: Session) -> None:
    """They conflict with the same job in the same state."""
    job = await hold(sql, "active")
    done = await ask_all(sql, [spec({}), spec(IGNORE), spec({})])

    assert [Done(outcome, job, job, "active") for outcome in ("rejected", "deduplicated", "rejected")] == done


async def test_the_others_find_a_job_of_the_future_scheduled(sql: Session) -> None:
    """It has the state that is stored."""
    done = await ask_all(sql, [spec(IGNORE, run_at="2040-01-01T00:00:00Z"), spec(IGNORE)])

    assert Done("deduplicated", done[0].id, done[0].id, "scheduled") == done[1]
