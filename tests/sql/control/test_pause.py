"""`pause` and `resume`: jobs of a task, a queue, a limit, a key, or all jobs do not start until they are resumed."""

import pytest

from tests.support.jobs import add, claim_next, complete, fetch, fetched
from tests.support.session import Session

LIMIT = "insert into asyncq._limits (id, name, at_once) values (9, 'tenants', 5)"
LIMITED = "select from asyncq._store_tasks('{t}'); update asyncq._tasks set limit_id = 9, by = '{tenant}'"


async def paused(sql: Session) -> list[tuple[str, str | None, str | None]]:
    """What is paused, by its names."""
    return [(row["what"], row["name"], row["key"]) for row in await sql.rows("select * from asyncq.pauses")]


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ("", ("everything", None, None)),
        ("task => 't'", ("task", "t", None)),
        ("queue => 'q'", ("queue", "q", None)),
        ("limit_name => 'tenants'", ("limit", "tenants", None)),
        ("limit_name => 'tenants', key => 'acme'", ("key", "tenants", "acme")),
    ],
)
async def test_what_is_paused_starts_no_job_until_it_is_resumed(
    sql: Session, named: str, expected: tuple[str, str | None, str | None]
) -> None:
    """Jobs from before and after the pause wait. Nothing has to exist before."""
    await sql.execute(LIMIT)
    if "limit_name" in named:
        await sql.execute(LIMITED)
    queue = "q" if "queue" in named else None
    before = await add(sql, queue=queue, payload='{"tenant": "acme"}')
    row = await sql.row(f"select * from asyncq.pause({named})")
    after = await add(sql, queue=queue, payload='{"tenant": "acme"}')
    other = await add(sql, "other", queue="else")

    assert expected == (row["what"], row["name"], row["key"])
    assert [expected] == await paused(sql)
    assert [other] * (expected[0] != "everything") == await fetched(sql)
    await sql.rows(f"select asyncq.resume({named})")
    ran: list[int] = []
    while claims := await fetch(sql):
        ran += [claim["id"] for claim in claims]
        await complete(sql, claims)

    assert ([], [before, after, *([other] * (expected[0] == "everything"))]) == (await paused(sql), sorted(ran))


async def test_a_pause_says_since_when_by_whom_and_why(sql: Session) -> None:
    """Another pause of the same thing replaces the name and the reason. The first moment stays."""
    role = await sql.value("select session_user::text")
    first = await sql.row("select * from asyncq.pause(queue => 'q')")
    clock = "create or replace function asyncq.clock() returns timestamptz language sql as"
    await sql.execute(f"{clock} $$ select now() + interval '1 h' $$")
    second = await sql.row("select * from asyncq.pause(queue => 'q', reason => 'too slow', by => 'Ann')")
    ended = await sql.row("select * from asyncq.resume(queue => 'q')")

    assert (role, None) == (first["paused_by"], first["reason"])
    assert ("Ann", "too slow") == (second["paused_by"], second["reason"])
    assert first["paused_at"] == second["paused_at"]
    assert second == ended
    assert [None] * 6 == [*await sql.row("select * from asyncq.resume(queue => 'q')")]


@pytest.mark.parametrize(
    ("arguments", "field", "said"),
    [
        (
            "task => 't', queue => 'q'",
            "task",
            "a task, a queue and a limit cannot be paused or resumed in one call: name one of them",
        ),
        ("key => 'acme'", "key", "a key is one of a limit: give limit_name too"),
        ("task => 't', key => 'acme'", "key", "a key is one of a limit: give limit_name too"),
        ("task => ''", "task", "task has 0 characters, expected 1 to 128"),
        ("queue => repeat('q', 129)", "queue", "queue has 129 characters, expected 1 to 128"),
        ("limit_name => repeat('q', 129)", "limit_name", "limit_name has 129 characters, expected 1 to 128"),
        ("reason => repeat('q', 501)", "reason", "reason has 501 characters, expected 1 to 500"),
        ("by => ''", "by", "by has 0 characters, expected 1 to 128"),
    ],
)
@pytest.mark.parametrize("act", ["pause", "resume"])
async def test_bad_arguments_are_refused(sql: Session, act: str, arguments: str, field: str, said: str) -> None:
    """The error has the name of the argument."""
    error = await sql.refusal(f"select asyncq.{act}({arguments})")

    assert ("22023", field, said) == (error.sqlstate, error.column_name, error.message)


async def test_resume_needs_a_new_snapshot(own: Session) -> None:
    """An old one does not show jobs that were added since: nobody would look for them."""
    async with own.connection.transaction(isolation="repeatable_read"):
        error = await own.refusal("select asyncq.resume(queue => 'q')")

    assert ("0A000", "resume works at READ COMMITTED only: an old snapshot does not show all waiting jobs") == (
        error.sqlstate,
        error.message,
    )


@pytest.mark.parametrize("named", ["", "task => 't'", "queue => 'q'"])
async def test_the_next_job_of_a_paused_queue_or_task_does_not_follow(sql: Session, named: str) -> None:
    """The statement that ends a job claims the next one of its queue."""
    await add(sql, queue="q")
    claims = await fetch(sql)
    following = await add(sql, queue="q")
    await sql.rows(f"select asyncq.pause({named})")
    _, after = await claim_next(sql, claims)
    await sql.rows(f"select asyncq.resume({named})")

    assert [] == after
    assert [following] == await fetched(sql)


async def test_a_task_of_a_queue_is_paused_alone(sql: Session) -> None:
    """The queue goes on with the jobs of other tasks. The end of a job of the paused task frees it."""
    await add(sql, "a", queue="q")
    claims = await fetch(sql)
    waiting = await add(sql, "a", queue="q")
    other = await add(sql, "b", queue="q")
    await sql.rows("select asyncq.pause(task => 'a')")
    await complete(sql, claims)
    following = await fetch(sql)
    await complete(sql, following)
    await sql.rows("select asyncq.resume(task => 'a')")

    assert ([other], [waiting]) == ([claim["id"] for claim in following], await fetched(sql))


async def test_a_plain_add_of_a_paused_task_stores_the_job_where_no_fetch_reads_it(sql: Session) -> None:
    """Otherwise each add would store a job that has to be moved."""
    await sql.execute("select asyncq._store_tasks('{t,other}')")
    await sql.rows("select asyncq.pause(task => 't')")
    plain = ("{}", None, None, False)

    for task in ("t", "other"):
        assert 1 == len(await sql.run("insert_job", task, *plain))
    assert [True, False] == await sql.values("select partition is not null from asyncq._jobs order by id")
