"""`set_limit`, `set_partition`: values that an administrator sets, which hold whatever is deployed."""

import json
from typing import Any

import pytest

from tests.sql.control.test_declare_limits import declare, values
from tests.support.jobs import add, fetched
from tests.support.session import Session

KEYED = {"at_once": 2, "by": ["k"]}


async def show(sql: Session, name: str = "t") -> Any:
    """The row of the view."""
    return await sql.row("select * from asyncq.limits where name = $1", name)


async def test_a_value_that_was_set_outlives_a_deployment(sql: Session) -> None:
    """Both values are shown. Once it is unset, the last declared one is in force."""
    await declare(sql, t={**KEYED})
    await sql.rows("select asyncq.set_limit('t', at_once => 5, by => 'ann')")
    await declare(sql, "worker 2", t={"at_once": 3, "by": ["k"]})
    during = await show(sql)
    await sql.rows("select asyncq.unset_limit('t')")
    after = await show(sql)

    assert (5, "ann", "worker 2") == (during["at_once"], during["set_by"], during["declared_by"])
    assert ({"at_once": 3}, {"at_once": 5}) == (json.loads(during["declared"]), json.loads(during["overrides"]))
    assert (3, None, None) == (after["at_once"], after["overrides"], after["set_by"])


async def test_values_are_set_one_after_the_other(sql: Session) -> None:
    """A null leaves a value as it is; no limit is a value too."""
    await declare(sql, t={**KEYED, "total": 9})
    await sql.rows("select asyncq.set_limit('t', rate => 10, per_s => 60)")
    await sql.rows("select asyncq.set_limit('t', unlimited => '{at_once}')")

    assert {"rate": 10, "per_s": 60, "total": 9} == await values(sql, "t")


async def test_at_once_of_a_limit_without_a_key_is_its_total(sql: Session) -> None:
    """There is one key, and jobs with a queue count too."""
    await declare(sql, t={"total": 2})
    await sql.rows("select asyncq.set_limit('t', at_once => 5, rate => 10, per_s => 60)")

    assert {"total": 5, "total_rate": 10, "total_per_s": 60} == await values(sql, "t")


async def test_the_limit_of_a_queue_is_set_by_its_name(sql: Session) -> None:
    """A queue whose limit a worker has declared."""
    await declare(sql, queues={"q": 2})
    jobs = [await add(sql, queue="q") for _ in range(4)]
    before = await fetched(sql)
    await sql.rows("select asyncq.set_limit('q', at_once => 3)")
    during = await show(sql, "q")

    assert (jobs[:2], jobs[2:3]) == (before, await fetched(sql))
    assert ("queue", 3, 2, 2) == (during["kind"], during["at_once"], during["running"], during["waiting"])
    assert 2 == await sql.value("select at_once from asyncq.unset_limit('q')")


async def test_one_key_has_its_own_limit(sql: Session) -> None:
    """A raised one wakes its jobs. Unset, the limit of all keys holds again."""
    await declare(sql, t={**KEYED})
    jobs = [await add(sql, payload=json.dumps({"k": key})) for key in ("a", "a", "a", "a", "b", "b", "b")]
    before = await fetched(sql)
    await sql.rows("select asyncq.set_partition('t', 'a', at_once => 3)")
    raised = await fetched(sql)
    await sql.rows("select asyncq.unset_limit('t', 'a')")

    assert ([*jobs[:2], *jobs[4:6]], jobs[2:3], []) == (before, raised, await fetched(sql))


async def test_the_keys_of_a_limit_are_listed(sql: Session) -> None:
    """Those with most running jobs come first; a reason says why the next job does not start."""
    await declare(sql, t={**KEYED})
    for key in ("a", "a", "a", "b"):
        await add(sql, payload=json.dumps({"k": key}))
    await fetched(sql)
    await add(sql, payload='{"k": "c"}')
    rows = await sql.rows("select * from asyncq.partitions('t')")
    shown = await show(sql)

    assert [
        ("a", 1, 2, 2, None, "partition_full"),
        ("b", 0, 1, 2, None, None),
        ("c", 1, 0, 2, None, None),
    ] == [tuple(row) for row in rows]
    assert (["t"], ["k"], 3, 2, 1) == tuple(shown[name] for name in ("tasks", "by", "running", "waiting", "full"))


BELOW = "at_once must lie between 1 and 32767, got 0; to start no jobs, pause it instead"


@pytest.mark.parametrize(
    ("call", "field", "said"),
    [
        ("set_limit('t', at_once => 0)", "at_once", BELOW),
        ("set_limit('t', total => 32768)", "total", "total must lie between 1 and 32767, got 32768"),
        ("set_limit('t', rate => 100001, per_s => 1)", "rate", "rate must lie between 1 and 100000, got 100001"),
        ("set_limit('t', rate => 1, per_s => 0.05)", "per_s", "per_s must lie between 0.1 and 86400, got 0.05"),
        ("set_limit('t', rate => 1)", "rate", "rate and per_s belong together: so many starts in so many seconds"),
        (
            "set_limit('t', unlimited => '{fair}')",
            "unlimited",
            "unlimited names fair, expected one of at_once, rate, total, total_rate that is not set too",
        ),
        ("set_limit('t')", "at_once", "there is nothing to set: give a value"),
        ("set_limit('t', at_once => 1, by => '')", "by", "by has 0 characters, expected 1 to 128"),
        ("set_limit('x', at_once => 1)", "name", "no worker has declared a limit x; there are keyless, q, t"),
        ("unset_limit('x')", "name", "no worker has declared a limit x; there are keyless, q, t"),
        (
            "set_limit('keyless', at_once => 1, total => 1)",
            "total",
            "the limit has no key: at_once and total, or rate and total_rate, are the same, so give one of them",
        ),
        (
            "set_limit('q', total => 1)",
            "total",
            "a queue has a number of jobs at once, and a rate: total of queue q cannot be set so",
        ),
        (
            "set_limit('q', unlimited => '{at_once}')",
            "at_once",
            "a queue has a number of jobs at once, and a rate: at_once of queue q cannot be set so",
        ),
        ("set_partition('x', 'k', at_once => 1)", "limit_name", "no worker has declared a limit x"),
        (
            "set_partition('keyless', 'k', at_once => 1)",
            "key",
            "the limit keyless has no key: set_limit sets it for all its jobs",
        ),
        ("set_partition('t', 'k', weight => 101)", "weight", "weight must lie between 0.01 and 100, got 101"),
        ("partitions('t', 0)", "most", "most must lie between 1 and 1000, got 0"),
        (
            "partitions('x')",
            "limit_name",
            "no worker has declared a limit x, and no queue has this name",
        ),
    ],
)
async def test_bad_values_are_refused(sql: Session, call: str, field: str, said: str) -> None:
    """The error has the name of the value."""
    await declare(sql, t={**KEYED}, keyless={"total": 2}, queues={"q": 2})
    error = await sql.refusal(f"select asyncq.{call}")

    assert ("22023", field, said) == (error.sqlstate, error.column_name, str(error))
