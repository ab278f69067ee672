"""The SQL files work in any schema and under any search_path, and declare their parameters and columns correctly."""

import re
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from asyncq.store.database import Database
from asyncq.store.migrate import migrate
from asyncq.store.statements import folder, render
from tests.support.session import Session, session

FILES = sorted(folder().rglob("*.sql"))
QUERIES = sorted((folder() / "queries").rglob("*.sql"))
FUNCTIONS = sorted((folder() / "functions").rglob("*.sql"))

COLUMNS = """
select attname, atttypid::int as oid from pg_catalog.pg_attribute where attrelid = $1::text::regclass order by attnum"""
LINE_1 = re.compile(r"-- (?P<name>\w+)\((?P<parameters>.*)\) -> (?P<columns>.+)")


@asynccontextmanager
async def database_without_search_path(dsn: str) -> AsyncIterator[str]:
    """The DSN of a database of its own, in which no name is found without its schema."""
    name = f"t_{secrets.token_hex(6)}"
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(f"create database {name}")
        await connection.execute(f"alter database {name} set search_path = ''")
        yield urlunsplit(urlsplit(dsn)._replace(path=f"/{name}"))
        await connection.execute(f"drop database {name}")
    finally:
        await connection.close(timeout=5)


async def types(sql: Session, declared: str) -> list[tuple[str, int]]:
    """The names and type oids of a declared list, such as `id bigint, tags text[]`, or with all columns of a type."""
    found: list[tuple[str, int]] = []
    for entry in [] if declared in ("", "void") else declared.split(", "):
        if entry.endswith(".*"):
            columns = await sql.rows(COLUMNS, render(entry.removesuffix(".*"), sql.schema))
            found += [(column["attname"], column["oid"]) for column in columns]
        else:
            name, kind = entry.split(" ", 1)
            found.append((name, await sql.value("select $1::text::regtype::oid::int", kind)))
    return found


async def assert_that_each_query_says_what_it_takes_and_gives(sql: Session) -> None:
    """Compare line 1 of each file with the server's description of the statement."""
    for path in QUERIES:
        text = path.read_text("utf-8")
        said = LINE_1.fullmatch(text.splitlines()[0])
        assert said, f"{path.name}: line 1 is no signature"
        prepared = await sql.connection.prepare(render(text, sql.schema))
        columns = [(column.name, column.type.oid) for column in prepared.get_attributes()]

        assert (path.stem, path.name) == (said["name"], path.name)
        assert [oid for _, oid in await types(sql, said["parameters"])] == [
            parameter.oid for parameter in prepared.get_parameters()
        ], f"{path.name}: parameters"
        if said["columns"] == "void":
            assert ["void"] == [column.type.name for column in prepared.get_attributes()], f"{path.name}: columns"
        else:
            assert await types(sql, said["columns"]) == columns, f"{path.name}: columns"


async def assert_that_each_function_runs(sql: Session) -> None:
    """Bodies are not checked when a function is created: run each."""
    added = await sql.row("select * from asyncq.add_job('a', queue_name := 'q', flags := '{f}', options := '{}')")
    await sql.rows(
        "select * from asyncq.add_jobs(array[('b', '{}', 'q', null, 1, null, 1, '{f}', null, null)::asyncq.job_spec])"
    )
    await sql.execute(
        "update asyncq._jobs set locked_by = 0, locked_at = now(), lock_token = 1 where queue is not null"
    )
    await sql.rows("select asyncq._rescue_jobs(true), asyncq._wake_workers(), asyncq.clock(), asyncq.now()")

    assert ["available", "available"] == sorted(await sql.values("select asyncq._state(job) from asyncq._jobs as job"))
    assert [added["id"]] == await sql.values("select id from asyncq.get_job($1)", added["id"])


@pytest.mark.parametrize("schema", ["asyncq", "elsewhere"])
async def test_everything_works_in_any_schema_without_a_search_path(dsn: str, schema: str) -> None:
    """`add_job` runs inside other programs' transactions, with any search_path."""
    async with database_without_search_path(dsn) as alone:
        await migrate(Database(alone, schema))
        async with session(alone, schema) as sql:
            assert "" == (await sql.value("show search_path")).strip('"')
            await assert_that_each_query_says_what_it_takes_and_gives(sql)
            await sql.execute("drop index asyncq.jobs_one_running_per_queue")
            await assert_that_each_function_runs(sql)


def test_nothing_of_the_default_schema_is_left_after_rendering_for_another() -> None:
    """One name that is not replaced would lead the statements of one schema into the tables of another."""
    left = [path.name for path in FILES if re.search(r"\basyncq\b", render(path.read_text("utf-8"), "elsewhere"))]

    assert [] == left


def test_rendering_for_the_default_schema_changes_nothing() -> None:
    """The text in sql/ is the code that runs."""
    texts = [path.read_text("utf-8") for path in FILES]

    assert texts == [render(text, "asyncq") for text in texts]


def test_each_function_has_a_test_of_its_own() -> None:
    """The body of a plpgsql function is checked only when it runs."""
    here = Path(__file__).parent

    assert [] == [path.name for path in FUNCTIONS if not (here / path.parent.name / f"test_{path.stem}.py").exists()]


def test_queries_name_their_columns() -> None:
    """After a new column, a cached `select *` or `returning *` raises inside a caller's transaction."""
    found = {path.name: unnamed(code(path)) for path in QUERIES}

    assert {} == {name: stars for name, stars in found.items() if stars}


def unnamed(text: str) -> set[str]:
    """Find the relations of which a statement takes all columns, except its own subqueries, which name them."""
    stars = re.findall(r"(?:select|returning|,)\s+(?:(\w+)\.)?\*", text)
    parts = re.findall(r"\b(\w+)(?:\([^()]*\))? as (?:(?:not )?materialized )?\(", text)
    return set(stars) - set(parts) - set(subqueries(text))


def subqueries(text: str) -> Iterator[str]:
    """The names of the queries in parentheses: `(select ...) as name`."""
    opened: list[int] = []
    for place, sign in enumerate(text):
        if sign == "(":
            opened.append(place)
        elif sign == ")":
            is_query = re.match(r"\(\s*select\b", text[opened.pop() :])
            if is_query and (named := re.match(r"\) as (\w+)", text[place:])):
                yield named[1]


def test_functions_name_the_columns_of_other_functions() -> None:
    """`return query select *` matches by position: exchanged columns would go unnoticed."""
    assert [] == [path.name for path in FUNCTIONS if re.search(r"select\s+\*", code(path))]


def code(path: Path) -> str:
    """The text of a file without its comments."""
    return "\n".join(line.partition("--")[0] for line in path.read_text("utf-8").splitlines())


def test_every_file_begins_with_its_purpose() -> None:
    """A query begins with its signature, other files with a sentence."""
    assert [] == [path.name for path in FILES if not path.read_text("utf-8").startswith("-- ")]
