"""`_after`: the options after and if_failed, and what is refused."""

import json

import pytest

from asyncq.domain.after import MOST_AFTER
from tests.support.jobs import add
from tests.support.session import Session
from tests.support.waits import state, wait_for

ADD = "select id from asyncq.add_job('w', job_key => $1, options => $2::text::jsonb)"
TOO_MANY = [*range(1, MOST_AFTER + 2)]
WORDS = "if_failed must be wait, cancel or run, got "

FAULTS = [
    ({"after": 17}, "after", "after must be an array of ids of jobs"),
    ({"after": ["17"]}, "after", "after must have the ids of jobs only"),
    ({"after": [None]}, "after", "after must have the ids of jobs only"),
    ({"after": [1.5]}, "after", "after must have the ids of jobs only"),
    ({"after": [0]}, "after", "after must have the ids of jobs only"),
    ({"after": [2**63]}, "after", "after must have the ids of jobs only"),
    ({"after": TOO_MANY}, "after", "after has 100001 ids, at most 100000 are allowed"),
    ({"after": [1], "if_failed": "stop"}, "if_failed", f'{WORDS}"stop"'),
    ({"after": [1], "if_failed": True}, "if_failed", f"{WORDS}true"),
    (
        {"after": [1], "singleton": True, "rerun": True},
        "after",
        "after goes without rerun: the job that runs would run again without waiting",
    ),
    ({"if_failed": "run"}, "if_failed", "if_failed says what becomes of a job whose after has failed: it needs after"),
    ({"takes": "result"}, "takes", "takes says that the results of other jobs are the payload: it needs after"),
    ({"after": [1], "takes": "all"}, "takes", 'takes must be result or results, got "all"'),
    (
        {"after": [1, 2], "takes": "result"},
        "takes",
        "takes is result, which is that of one job, and after has 2 ids",
    ),
    ({"after": [1, 1], "takes": "results"}, "after", "after names a job twice: with takes each has one place"),
    ({"after": [1], "takes_as": "a"}, "takes_as", "takes_as names a member of the payload: it needs takes"),
    (
        {"after": [1], "takes": "result", "takes_as": ""},
        "takes_as",
        "takes_as must be the name of a member of the payload",
    ),
]


@pytest.mark.parametrize(("options", "column", "said"), FAULTS, ids=[str(number) for number in range(len(FAULTS))])
async def test_a_bad_option_is_refused_by_its_name(
    sql: Session, options: dict[str, object], column: str, said: str
) -> None:
    """Before anything is stored."""
    error = await sql.refusal(ADD, None, json.dumps(options))

    assert ("GWBAF", column, said) == (error.sqlstate, error.column_name, error.message)


async def test_a_job_key_is_refused(sql: Session) -> None:
    """An add with a key may change a waiting job, whose edges would be those of another request."""
    error = await sql.refusal(ADD, "k", '{"after": [1]}')

    assert "after goes without job_key: an add changes the waiting job that has its key" == error.message


async def test_no_ids_are_nothing_to_wait_for(sql: Session) -> None:
    """A list that a program has made may be empty."""
    assert "available" == await state(sql, await wait_for(sql, if_failed="run"))


async def test_an_id_that_is_named_twice_is_one_edge(sql: Session) -> None:
    """So a program may put lists together."""
    job = await add(sql)
    waiter = await wait_for(sql, job, job)

    assert [(waiter, job)] == [tuple(row) for row in await sql.rows("select waiter, job_id from asyncq._waits")]
