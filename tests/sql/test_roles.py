"""sql/roles.sql: on each object of the catalogue each role may do what tests/support/grants.py lists, no more."""

import re
from collections.abc import AsyncIterator

import asyncpg
import pytest

from asyncq.domain.errors import AccessDenied, SchemaMissing, StoreError
from asyncq.store import migrate as store
from asyncq.store.database import Database
from asyncq.store.migrate import migrate
from asyncq.store.roles import apply, script
from asyncq.store.statements import folder, render
from tests.support.grants import ENQUEUER, MEND, OBJECTS, PRIVILEGES, STRANGER, WORKER
from tests.support.needs import code, rights_needed
from tests.support.roles import Roles, three_roles
from tests.support.session import Session, session

MATRIX = {"worker": WORKER, "enqueuer": ENQUEUER, "stranger": STRANGER}
DENIED = "42501"


@pytest.fixture(scope="module")
async def roles(dsn: str) -> AsyncIterator[Roles]:
    """The roles of this file; changes of a test are rolled back."""
    async with three_roles(dsn) as made:
        yield made


@pytest.fixture
async def sql(roles: Roles) -> AsyncIterator[Session]:
    """A superuser's session inside a transaction that is rolled back."""
    async with session(roles.dsn, roles.schema) as opened:
        transaction = opened.connection.transaction()
        await transaction.start()
        yield opened
        await transaction.rollback()


async def rights(sql: Session, role: str) -> dict[str, str]:
    """The privileges of a role in the schema, with those of PUBLIC and of its own groups."""
    found = {}
    for item in await sql.rows(OBJECTS):
        function, possible = PRIVILEGES[item["kind"]]
        held = [
            right
            for right in possible.split()
            if await sql.value(f"select has_{function}_privilege($1, $2::oid, $3)", role, item["oid"], right)
        ]
        if held:
            found[item["name"]] = " ".join(held)
    return found


@pytest.mark.parametrize("role", MATRIX)
async def test_a_role_has_the_rights_that_are_listed_and_no_other(sql: Session, roles: Roles, role: str) -> None:
    """The matrix lists roles, objects and rights. New objects are refused until they are listed."""
    actual = await rights(sql, getattr(roles, role))

    assert MATRIX[role] == actual, MEND


async def test_no_role_has_rights_on_single_columns(sql: Session) -> None:
    """A grant on a column is seen by no other question."""
    columns = await sql.values(
        """
        select relation.relname || '.' || attribute.attname
        from pg_catalog.pg_attribute as attribute
        join pg_catalog.pg_class as relation on relation.oid = attribute.attrelid
        where relation.relnamespace = 'asyncq'::regnamespace and attribute.attacl is not null"""
    )

    assert [] == columns


ACTIONS = {
    "schema": {"create": "create table asyncq.mine ()"},
    "table": {
        "select": "select from {name} limit 0",
        "insert": "insert into {name} default values",
        "update": "update {name} set {column} = default where false",
        "delete": "delete from {name} where false",
        "truncate": "truncate {name}",
    },
    "view": {"select": "select from {name} limit 0"},
    "sequence": {"usage": "select nextval('{name}')", "update": "select setval('{name}', 1)"},
    "function": {"execute": "select {name}({nulls})"},
    "type": {"usage": "create temp table mine (it {name})"},
}

# Arguments that are no constants: a strict function is not even looked up for a constant null.
DETAILS = """
select
  (select quote_ident(attname) from pg_catalog.pg_attribute
    where attrelid = $1::oid and attnum > 0 order by attnum limit 1) as column,
  (select string_agg('(select null::' || format_type(type, null) || ')', ', ' order by ord)
    from pg_catalog.pg_proc, unnest(proargtypes::oid[]) with ordinality as given(type, ord)
    where pg_proc.oid = $1::oid) as nulls
"""


@pytest.mark.parametrize("role", MATRIX)
async def test_an_action_that_is_not_listed_is_refused(sql: Session, roles: Roles, role: str) -> None:
    """Each action is tried: an allowed one may fail for other reasons, but not for lack of a right."""
    expected, actual = {}, {}
    for item in await sql.rows(OBJECTS):
        details = await sql.row(DETAILS, item["oid"])
        name = f"asyncq.{item['name'].split()[-1]}"
        for right, action in ACTIONS[item["kind"]].items():
            statement = action.format(name=name, column=details["column"], nulls=details["nulls"] or "")
            expected[f"{item['name']}: {right}"] = right in MATRIX[role].get(item["name"], "").split()
            actual[f"{item['name']}: {right}"] = await allowed(sql, getattr(roles, role), statement)

    assert expected == actual, MEND


async def allowed(sql: Session, role: str, statement: str) -> bool:
    """Whether a role may execute it; the change is undone."""
    transaction = sql.connection.transaction()
    await transaction.start()
    try:
        await sql.execute(f"set local role {role}; {statement}")
    except asyncpg.PostgresError as error:
        return error.sqlstate != DENIED
    else:
        return True
    finally:
        await transaction.rollback()


def test_a_worker_has_exactly_the_rights_that_the_statements_need() -> None:
    """Read from the texts in sql/: the author of a statement sees here which right it needs, or no longer needs."""
    assert rights_needed() == WORKER, MEND


LATER = """-- What a later release brings.
create table asyncq.later (id int generated always as identity, state text);
create type asyncq.later_spec as (name text);
create view asyncq.later_view as select id from asyncq.later;
create function asyncq.later() returns int language sql as 'select 1';
"""


async def test_new_objects_are_refused_to_all_before_and_after_the_script(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody gets rights by default, neither from the server for PUBLIC nor from the defaults of a careless owner."""
    found = []
    async with three_roles(dsn) as roles, session(roles.dsn_of(roles.owner), roles.schema) as owner:
        await owner.execute("alter default privileges in schema asyncq grant select on tables to public")
        later = [*store.migrations(), store.Migration(999999, "999999_later", LATER)]
        monkeypatch.setattr(store, "migrations", lambda: later)
        await migrate(Database(roles.dsn_of(roles.owner), roles.schema))
        for _ in range(2):
            found.extend([await rights(owner, name) for name in (roles.worker, roles.enqueuer, roles.stranger)])
            await roles.grant()

    assert [WORKER, ENQUEUER, STRANGER] * 2 == found


async def test_migrate_revokes_the_servers_default_grants_to_public(dsn: str) -> None:
    """New functions and types are open to PUBLIC; tables may be, by somebody's default privileges."""
    async with three_roles(dsn) as roles, session(roles.dsn_of(roles.owner), roles.schema) as owner:
        await owner.execute("""
            grant usage on schema asyncq to public;
            grant execute on function asyncq.add_job to public;
            grant usage on type asyncq.job_spec, asyncq._jobs to public;
            grant select on asyncq._jobs to public;
            create function asyncq.theirs() returns int language sql as 'select 1'""")
        await migrate(Database(roles.dsn_of(roles.owner), roles.schema))
        left = await rights(owner, roles.stranger)

    assert {"schema": "usage", "function theirs": "execute"} == left


async def test_the_script_revokes_grants_that_are_not_listed(dsn: str) -> None:
    """An older release needed them, or somebody granted them in a hurry."""
    async with three_roles(dsn) as roles, session(roles.dsn_of(roles.owner), roles.schema) as owner:
        await owner.execute(f"""
            grant all on all tables in schema asyncq to {roles.worker}, {roles.enqueuer};
            grant update (payload) on asyncq._jobs to {roles.enqueuer};
            grant all on all sequences in schema asyncq to {roles.enqueuer};
            grant execute on all functions in schema asyncq to {roles.worker}, {roles.enqueuer}, public;
            grant all on schema asyncq to {roles.worker}, {roles.enqueuer}, public""")
        await roles.grant()
        found = [await rights(owner, name) for name in (roles.worker, roles.enqueuer, roles.stranger)]

    assert [WORKER, ENQUEUER, STRANGER] == found


async def test_a_role_that_is_missing_is_created_and_cannot_log_in(sql: Session, roles: Roles) -> None:
    """A superuser may run the script before the roles exist. Their names may need quotes."""
    worker, enqueuer = f'{roles.schema}; drop "it\'s" \\1', f":\"worker\" {roles.schema} :'enqueuer'"
    text = re.sub(r"^(begin|commit);$", "", script(roles.schema, worker=worker, enqueuer=enqueuer), flags=re.MULTILINE)
    await sql.connection.execute(text)

    assert [False, False] == await sql.values(
        "select rolcanlogin from pg_catalog.pg_roles where rolname = any($1)", [worker, enqueuer]
    )
    assert (WORKER, ENQUEUER) == (await rights(sql, worker), await rights(sql, enqueuer))


REFUSALS = {
    "not the owner": ("worker", "worker", "enqueuer", AccessDenied, "only the owner of schema"),
    "the owner as worker": ("owner", "owner", "enqueuer", StoreError, "has all the rights of role"),
    "one role for both": ("owner", "worker", "worker", StoreError, "has all the rights of role"),
}


@pytest.mark.parametrize("case", REFUSALS)
async def test_the_script_refuses_names_that_would_give_the_wrong_rights(roles: Roles, case: str) -> None:
    """The server only warns of a grant by another role. The owner's rights would be revoked from itself."""
    by, worker, enqueuer, kind, said = REFUSALS[case]
    database = Database(roles.dsn_of(getattr(roles, by)), roles.schema)
    with pytest.raises(kind, match=said):
        await apply(database, worker=getattr(roles, worker), enqueuer=getattr(roles, enqueuer))


async def test_public_is_no_role_even_in_quotes(roles: Roles) -> None:
    """The server would read it as everybody."""
    with pytest.raises(StoreError, match="public is no role, but everybody"):
        await apply(Database(roles.dsn_of(roles.owner), roles.schema), worker=roles.worker, enqueuer="public")


async def test_the_script_reports_a_missing_schema(dsn: str) -> None:
    """Run before `asyncq migrate`, it creates no role either."""
    with pytest.raises(SchemaMissing, match="run `asyncq migrate --schema nowhere`"):
        await apply(Database(dsn, "nowhere"), worker="nobody_w", enqueuer="nobody_e")

    async with session(dsn, "nowhere") as sql:
        assert [] == await sql.values("select rolname from pg_roles where rolname like 'nobody_%'")


OF_THE_OWNER = [
    *("backlog", "counts", "depths", "depths_by", "enqueue", "explain", "failed_jobs", "failures", "oldest_due"),
    *("running", "stats", "workers"),
]
"""What roles may do or read that may not use the tables."""


async def test_few_functions_run_with_the_rights_of_the_owner(sql: Session, roles: Roles) -> None:
    """Such a function gives access: it belongs to the owner, and its callers cannot redirect its calls."""
    doors = await sql.rows("""
        select proname, pg_get_userbyid(proowner) as owner, proconfig
        from pg_catalog.pg_proc where pronamespace = 'asyncq'::regnamespace and prosecdef order by 1""")

    assert OF_THE_OWNER == [door["proname"] for door in doors]
    assert {(roles.owner, "search_path=pg_catalog, pg_temp")} == {
        (door["owner"], door["proconfig"][0]) for door in doors
    }


def test_the_script_names_all_that_it_grants() -> None:
    """A grant on all tables would include future ones."""
    text = code(render((folder() / "roles.sql").read_text("utf-8"), "asyncq"))

    assert [] == re.findall(r"grant [^;]* on all [^;]*;", text)
