"""A schema full of look-alikes: code of ours that finds one by its bare name fails with HIJACKED."""

import re
from collections.abc import Iterator
from itertools import product

from asyncq.store.statements import folder
from tests.support.session import Session

NUMBERS = ("smallint", "integer", "bigint", "double precision", "numeric")
TYPES = (*NUMBERS, "text", "json", "jsonb", "timestamp with time zone", "interval", "boolean", "bytea")
COMPARISONS = ("=", "<>", "<", ">", "<=", ">=")
OPERATORS = (*COMPARISONS, "+", "-", "*", "/", "||", "->", "->>", "#>>", "?", "?|", "~", "!~", "&&", "~~")
# The server's polymorphic types, for which an exact match in another schema has priority.
ANY = {"anyelement", "anynonarray", "anycompatible", "anycompatiblenonarray"}
ANY_ARRAY = {"anyarray", "anycompatiblearray"}

SERVERS_FUNCTIONS = """
select proname as name, proretset as is_set,
  array(select type::regtype::text from unnest(proargtypes) with ordinality as given(type, ord) order by ord) as types
from pg_catalog.pg_proc
where pronamespace = 'pg_catalog'::regnamespace and proname = any($1)
"""

SERVERS_OPERATORS = """
select oprname as name, oprleft::regtype::text as left_type, oprright::regtype::text as right_type
from pg_catalog.pg_operator
where oprnamespace = 'pg_catalog'::regnamespace and oprname = any($1)
  and oprleft = any($2::text[]::regtype[]) and oprright = any($2::text[]::regtype[])
"""

ALARM = """
create schema {evil};
grant usage on schema {evil} to public;
create function {evil}.alarm() returns text language plpgsql set search_path = pg_catalog as $alarm$
begin
  raise exception using errcode = 'XXHIJ', message = 'HIJACKED as ' || current_user;
end
$alarm$;
"""

FUNCTION = """
create function {evil}.{name}({arguments}) returns {answer} language plpgsql
  as $body$ begin perform {evil}.alarm(); end $body$;
"""

OPERATOR = "create operator {evil}.{name} (leftarg = {left}, rightarg = {right}, function = {evil}.{function});"

# Tables without rows, and types that take no value.
NAMES = """
create function {evil}.never() returns bool language plpgsql
  as $never$ begin perform {evil}.alarm(); return false; end $never$;
create domain {evil}.text as pg_catalog.text check ({evil}.never());
create domain {evil}.json as pg_catalog.json check ({evil}.never());
create domain {evil}.jsonb as pg_catalog.jsonb check ({evil}.never());
create domain {evil}.timestamptz as pg_catalog.timestamptz check ({evil}.never());
create table {evil}._jobs (like {schema}._jobs);
create table {evil}._tasks (like {schema}._tasks);
create table {evil}.pg_proc (like pg_catalog.pg_proc);
grant all on all tables in schema {evil} to public;
"""


def called() -> list[str]:
    """The names that are called in sql/. Only functions of the server get a look-alike."""
    paths = [*(folder() / "functions").rglob("*.sql"), *(folder() / "queries").rglob("*.sql")]
    return sorted({name for path in paths for name in re.findall(r"\b([a-z_0-9]+)\(", path.read_text("utf-8"))})


def overloads(types: list[str]) -> Iterator[str]:
    """Arguments with these types; of polymorphic ones a list for each type that there is."""
    for type_ in TYPES:
        yield ", ".join(f"{type_}[]" if one in ANY_ARRAY else type_ if one in ANY else one for one in types)


async def functions(sql: Session, evil: str) -> Iterator[str]:
    """Statements that create look-alikes of the server's functions."""
    rows = await sql.rows(SERVERS_FUNCTIONS, called())
    made = {(row["name"], row["is_set"], arguments) for row in rows for arguments in overloads(row["types"])}
    return (
        FUNCTION.format(evil=evil, name=name, arguments=arguments, answer="setof text" if is_set else "text")
        for name, is_set, arguments in sorted(made)
        if not re.search(r"\bany|internal|cstring", arguments)
    )


async def operators(sql: Session, evil: str) -> Iterator[str]:
    """The same for operators; also those of two different numbers, for which the server would convert one of them."""
    rows = await sql.rows(SERVERS_OPERATORS, list(OPERATORS), [*TYPES, "text[]"])
    made = {(row["name"], row["left_type"], row["right_type"]) for row in rows}
    made |= set(product((*COMPARISONS, "+", "-", "*", "/"), NUMBERS, NUMBERS))
    made |= {(name, f"{type_}[]", f"{type_}[]") for name in ("=", "<>", "||", "&&") for type_ in TYPES}
    made |= {("||", "text", type_) for type_ in TYPES}
    return (
        FUNCTION.format(evil=evil, name=f"operator_{number}", arguments=f"{left}, {right}", answer="boolean")
        + OPERATOR.format(evil=evil, name=name, left=left, right=right, function=f"operator_{number}")
        for number, (name, left, right) in enumerate(sorted(made))
    )


async def build(sql: Session) -> str:
    """Make the schema; returns its name. Everybody may use it."""
    evil = f"evil_{sql.schema}"
    statements = [
        ALARM.format(evil=evil),
        *await functions(sql, evil),
        *await operators(sql, evil),
        NAMES.format(evil=evil, schema=sql.schema),
    ]
    await sql.connection.execute("".join(statements))
    return evil
