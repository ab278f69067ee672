"""`_is_allowed`: the job has no flag that the worker forbids."""

import pytest

from tests.support.jobs import add
from tests.support.session import Session

CASES = [
    # the job's flags, forbidden -> allowed
    (None, None, True),
    (None, ["a"], True),
    (["a"], None, True),
    (["a"], [], True),
    (["a"], ["b"], True),
    (["a"], ["a"], False),
    (["a", "b"], ["c", "b"], False),
    (["A"], ["a"], True),
]


@pytest.mark.parametrize(("flags", "forbidden", "allowed"), CASES)
async def test_a_flag_that_is_forbidden_forbids_the_job(
    sql: Session, flags: list[str] | None, forbidden: list[str] | None, allowed: bool
) -> None:
    """One forbidden flag is enough. Names are compared exactly."""
    await add(sql, flags=flags)

    assert allowed is await sql.value("select asyncq._is_allowed(job, $1) from asyncq._jobs as job", forbidden)


async def test_a_flag_counts_even_if_its_value_is_not_true(sql: Session) -> None:
    """Flags are matched by name, as in graphile-worker: `{"a": false}` has the flag."""
    await add(sql)
    await sql.rows("""update asyncq._jobs set flags = '{"a": false}'""")

    assert not await sql.value("select asyncq._is_allowed(job, '{a}') from asyncq._jobs as job")
