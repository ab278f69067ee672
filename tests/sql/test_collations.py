"""No identity depends on the collation of the database, whose order an upgrade of libc or ICU may change."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from asyncq.store.database import Database
from asyncq.store.migrate import migrate
from tests.support.icu import change_locale, icu_database
from tests.support.session import Session, session

# The columns of tables, and the columns and expressions of indexes.
FOREIGN_ORDER = """
select relation.relname || '.' || attribute.attname as place
from pg_catalog.pg_class as relation
join pg_catalog.pg_attribute as attribute on attribute.attrelid = relation.oid
left join pg_catalog.pg_index as index on index.indexrelid = relation.oid
where relation.relnamespace = $1::text::regnamespace and relation.relkind in ('r', 'p', 'i', 'I')
  and attribute.attnum > 0 and not attribute.attisdropped
  and case when index.indexrelid is null then attribute.attcollation else index.indcollation[attribute.attnum - 1] end
    not in (0, '"C"'::regcollation)
order by 1
"""
# Before: letters in the order of English. After: digits as numbers, capitals first, from the end of the word.
BEFORE, AFTER = "en-US", "fr-CA-u-kb-true-kf-upper-kn-true"
BY_INDEX = {"enable_seqscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off"}
NAMES = [f"{letter}{number}{ending}" for letter in "aBc" for number in range(1, 40) for ending in ("-x", "Y")]


async def test_every_text_that_is_stored_has_collation_c(sql: Session) -> None:
    """The message names the columns without it: write `collate "C"` in the migration."""
    assert [] == [row["place"] for row in await sql.connection.fetch(FOREIGN_ORDER, sql.schema)]


async def test_a_text_without_collation_c_is_found(sql: Session) -> None:
    """A column, an array, an index and an expression of an index: the query on the catalog finds each."""
    await sql.execute("""
        alter table asyncq._jobs add column words text, add column many text[];
        create index jobs_found on asyncq._jobs ((last_error collate "ucs_basic"), lower(words) text_pattern_ops);
        create index jobs_fine on asyncq._jobs (lower(last_error));
    """)

    assert ["_jobs.many", "_jobs.words", "jobs_found.last_error", "jobs_found.lower"] == [
        row["place"] for row in await sql.connection.fetch(FOREIGN_ORDER, sql.schema)
    ]


@asynccontextmanager
async def installed_in(dsn: str, locale: str) -> AsyncGenerator[str]:
    """The DSN of a database with the order of a locale, in which the schema is installed."""
    async with icu_database(dsn, locale) as place:
        await migrate(Database(place, "asyncq"))
        yield place


ADDS = {
    "idempotency keys": """
        select count(*) from unnest($1::text[]) as name, lateral asyncq.enqueue(jsonb_build_array(jsonb_build_object(
          'identifier', 'a', 'options', jsonb_build_object('idempotency_key', name)))::json) as done
        where done.outcome = 'added'""",
    "job keys": """
        select count(*) filter (where added.revision = 0)
        from unnest($1::text[]) as name, lateral asyncq.add_job('a', job_key => name) as added""",
    "tasks": """
        with before as materialized (select count(*) as number from asyncq._tasks),
        done as materialized (select asyncq._store_tasks($1::text[])::text from before)
        select (select count(*) from asyncq._task_ids($1::text[])) - number from before, done""",
    "recurring items": """
        with before as materialized (select count(*) as number from asyncq.known_crontabs),
        done as materialized (
          select count(known.identifier) as number from before, lateral asyncq._register_crontabs($1::text[]) as known)
        select done.number - before.number from before, done""",
}


@pytest.mark.parametrize("statement", ADDS.values(), ids=ADDS)
async def test_names_are_known_after_an_upgrade_of_icu(dsn: str, statement: str) -> None:
    """Indexes in an outdated order would find one half of the names and store the others twice."""
    async with installed_in(dsn, BEFORE) as place:
        async with session(place, "asyncq", **BY_INDEX) as sql:
            first = await sql.value(statement, NAMES)
        await change_locale(place, AFTER)
        async with session(place, "asyncq", **BY_INDEX) as sql:
            assert await sql.value("select 'a9' < 'a10'"), "the order has changed"
            again = await sql.value(statement, NAMES)
            violations = await sql.values("select law from asyncq.violations()")

    assert (len(NAMES), 0, []) == (first, again, violations)


LOCKED = {
    "_store_tasks": ("select asyncq._store_tasks('{a9,a10,B}')", "select identifier from asyncq._tasks order by id"),
    "_task_ids": ("select from asyncq._task_ids('{a9,a10,B}')", "select identifier from asyncq._tasks order by id"),
    "_register_crontabs": (
        "select from asyncq._register_crontabs('{a9,a10,B}')",
        "select identifier from asyncq.known_crontabs order by ctid",
    ),
    "_lock_crontabs": (
        "select asyncq._lock_crontabs('{a9,a10,B}', array_fill(now(), '{3}'), array_fill(null::bigint, '{3}'))",
        "select identifier from asyncq.known_crontabs order by ctid",
    ),
    "_store_requests": (
        """select asyncq._store_requests(
            array(
              select asyncq._new_job(
                't', '{}', null, null, jsonb_build_object('idempotency_key', key, 'window_s', 60))
              from unnest('{a9,a10,B}'::text[]) as key),
            array_fill('added'::text, '{3}'), '{1,2,3}')""",
        "select key from asyncq._requests order by ctid",
    ),
}


@pytest.mark.parametrize(("call", "order"), LOCKED.values(), ids=LOCKED)
async def test_names_are_locked_in_the_order_of_their_bytes(dsn: str, call: str, order: str) -> None:
    """Two sessions that disagree about the order of names would deadlock."""
    async with installed_in(dsn, AFTER) as place, session(place, "asyncq") as sql:
        await sql.rows(call)

        assert ["B", "a10", "a9"] == await sql.values(order)


async def test_the_first_unknown_option_is_the_same_in_every_database(dsn: str) -> None:
    """Errors name the first in the order of bytes."""
    async with installed_in(dsn, AFTER) as place, session(place, "asyncq") as sql:
        refused = await sql.refusal("""select asyncq._extra('{"a9": 1, "a10": 1}', 't', null, null, null)""")

    assert "'a10' is unknown" in str(refused)
