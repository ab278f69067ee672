"""`store.migrate`: installs, upgrades, waits, and leaves alone what is newer than it knows."""

import asyncio
import secrets
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from asyncq.domain.errors import AccessDenied, ConfigurationError, SchemaMissing, SchemaTooNew, StoreError
from asyncq.store import migrate as module
from asyncq.store.database import Database
from asyncq.store.migrate import Migration, check_version, migrate, migrations, status
from tests.support.pooler import pooled
from tests.support.session import Session, session
from tests.support.waiting import wait_until

CHECKOUT = Path(__file__).parents[2]
NEWEST = migrations()[-1].id

ONE_PROCESS = """
import asyncio, sys
from asyncq.store.database import Database
from asyncq.store.migrate import migrate
print(len(asyncio.run(migrate(Database(sys.argv[1], sys.argv[2]))).applied))
"""


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Locks are waited for only briefly."""
    monkeypatch.setattr(module, "LOCK_TIMEOUT_S", 0.1)
    monkeypatch.setattr(module, "ALONE_TIMEOUT_S", 0.1)


def release(monkeypatch: pytest.MonkeyPatch, *more: Migration, last: int = NEWEST) -> None:
    """Become another release: one that knows fewer migrations, or more."""
    known = [item for item in migrations() if item.id <= last]
    monkeypatch.setattr(module, "migrations", lambda: [*known, *more])


def migration(text: str, id_: int = NEWEST + 1) -> Migration:
    """A migration that does not exist yet."""
    return Migration(id_, f"{id_:06}_later", text)


async def installed(sql: Session) -> list[int]:
    """The numbers of the migrations that are recorded."""
    return await sql.values("select id from asyncq._migrations order by id")


async def test_a_fresh_database_gets_everything(new: Database, bare: Session) -> None:
    """The report names the migrations."""
    report = await migrate(new)

    assert (tuple(item.name for item in migrations()), NEWEST, NEWEST, False) == (
        *(report.applied, report.version),
        *(report.newest, report.is_newer),
    )
    assert [item.id for item in migrations()] == await installed(bare)
    assert 1 == await bare.value("select (asyncq.add_job('t')).id")


async def test_a_second_time_changes_nothing(new: Database, bare: Session) -> None:
    """Every deployment runs it."""
    await migrate(new)
    before = await bare.rows("select * from asyncq._migrations order by id")
    report = await migrate(new)

    assert () == report.applied
    assert before == await bare.rows("select * from asyncq._migrations order by id")


async def test_a_function_that_was_changed_by_hand_is_restored(new: Database, bare: Session) -> None:
    """The release has the only copy of each function. This also restores a clock that a test moved."""
    await migrate(new)
    await bare.execute("""
        create or replace function asyncq.now() returns timestamptz
        language sql stable as $$ select '2000-01-01'::timestamptz $$""")
    await migrate(new)

    assert await bare.value("select asyncq.now() = now()")


async def test_an_existing_empty_schema_is_filled(new: Database, bare: Session) -> None:
    """An administrator creates it if roles may not. Other objects in it are left alone."""
    await bare.execute("""
        create schema asyncq;
        create function asyncq.theirs() returns int language sql as 'select 7'""")
    await migrate(new)
    open_to_all = "select has_function_privilege('public', $1, 'execute')"

    assert await bare.value(open_to_all, f"{bare.schema}.theirs()")
    assert not await bare.value(open_to_all, f"{bare.schema}.clock()")


async def test_eight_tasks_at_once_install_it_once(new: Database, bare: Session) -> None:
    """All pods of a deployment start together."""
    applied: list[int] = []

    async def install() -> None:
        applied.append(len((await migrate(new)).applied))

    async with anyio.create_task_group() as group:
        for _ in range(8):
            group.start_soon(install)

    assert [*[0] * 7, len(migrations())] == sorted(applied)


def test_eight_processes_at_once_install_it_once(dsn: str) -> None:
    """Real processes are used."""
    schema = f"t_{secrets.token_hex(6)}"
    command = [sys.executable, "-c", ONE_PROCESS, dsn, schema]
    children = [subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True) for _ in range(8)]
    applied = [int(child.communicate(timeout=30)[0]) for child in children]
    asyncio.run(drop(dsn, schema))

    assert [*[0] * 7, len(migrations())] == sorted(applied)


async def drop(dsn: str, schema: str) -> None:
    """Drop a schema."""
    async with session(dsn, schema) as sql:
        await sql.execute("set client_min_messages = warning; drop schema asyncq cascade")


async def test_an_older_release_changes_nothing_and_warns(
    new: Database, bare: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its function bodies would undo those of the newer one, while newer workers run."""
    await migrate(new)
    await bare.execute("""
        create or replace function asyncq.clock() returns timestamptz
        language sql as $$ select '2000-01-01'::timestamptz $$""")
    release(monkeypatch, last=NEWEST - 1)
    report = await migrate(new)

    assert ((), NEWEST, NEWEST - 1, True) == (report.applied, report.version, report.newest, report.is_newer)
    assert await bare.value("select asyncq.clock() = '2000-01-01'")


async def test_a_pending_migration_is_applied_and_the_functions_follow(
    new: Database, bare: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is an upgrade."""
    with monkeypatch.context() as older:
        release(older, last=NEWEST - 1)
        older.setattr(module, "_functions", nothing)
        await migrate(new)
    report = await migrate(new)

    assert (migrations()[-1].name,) == report.applied
    assert [item.id for item in migrations()] == await installed(bare)


@pytest.mark.parametrize("text", ["-- The functions have changed.\n", "", "select 1"], ids=str.strip)
async def test_a_migration_may_do_nothing(
    new: Database, bare: Session, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """Changed functions need one, even if it is only a comment, which the driver cannot run alone."""
    release(monkeypatch, migration(text))
    report = await migrate(new)

    assert [item.id for item in module.migrations()] == await installed(bare)
    assert module.migrations()[-1].name == report.applied[-1]


async def nothing(*_: object) -> None:
    """Replaces the functions of a release whose tables do not fit ours."""


async def test_the_recorded_checksum_is_that_of_the_executed_text(new: Database, bare: Session) -> None:
    """A migration that was edited afterwards can then be found."""
    await migrate(new)

    assert [item.checksum for item in migrations()] == await bare.values(
        "select checksum from asyncq._migrations order by id"
    )


@pytest.mark.parametrize("columns", ["id text", "id int, name text", "version_num text not null"])
@pytest.mark.parametrize("row", [False, True])
async def test_a_foreign_table_of_migrations_is_refused_and_left_alone(
    new: Database, bare: Session, columns: str, row: bool
) -> None:
    """Another program may use this name. The table must be neither read nor changed."""
    await bare.execute(f"create schema asyncq; create table asyncq._migrations ({columns})")
    if row:
        await bare.execute("insert into asyncq._migrations values ('1')")
    for action in (status, migrate):
        with pytest.raises(ConfigurationError, match="a table _migrations that is not of asyncq; choose another"):
            await action(new)
    with pytest.raises(ConfigurationError, match="not of asyncq"):
        await check_version(bare.connection, bare.schema)

    assert row == await bare.value("select count(*) from asyncq._migrations")
    assert [] == await bare.values("select proname from pg_proc where pronamespace = 'asyncq'::regnamespace")


async def test_a_failure_in_the_middle_leaves_nothing(
    new: Database, bare: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is one transaction, so even the schema is gone."""
    release(monkeypatch, migration("create table asyncq.half (id int); select 1 / 0"))
    with pytest.raises(StoreError, match="division by zero"):
        await migrate(new)

    assert await bare.value("select to_regnamespace($1) is null", bare.schema)


async def test_a_role_that_may_not_create_schemas_gets_an_error(new: Database, bare: Session) -> None:
    """The error has the server's message, and nothing is done."""
    role = f"weak_{bare.schema}"
    await bare.execute(f"create role {role} login")
    try:
        with pytest.raises(AccessDenied, match="permission denied"):
            await migrate(Database(new.dsn.replace("postgres@", f"{role}@", 1), new.schema))
    finally:
        await bare.execute(f"drop role {role}")


@pytest.mark.usefixtures("quick")
async def test_the_holder_of_the_lock_is_named(new: Database, sql: Session, schema: str) -> None:
    """A deployment must know which open transaction to end."""
    said: list[str] = []
    pid = sql.connection.get_server_pid()
    database = Database(new.dsn, schema)
    await sql.execute("begin; select 'the culprit' from asyncq._jobs; lock table asyncq._migrations")
    async with anyio.create_task_group() as group:
        group.start_soon(migrate, database, said.append)
        await wait_until(lambda: len(said) > 1, description="two tries")
        await sql.execute("rollback")

    assert f"waiting for a lock, held by pid {pid} (test: " in said[0]
    assert "; try 1 of 120" in said[0]


@pytest.mark.usefixtures("quick")
async def test_another_migration_that_holds_the_lock_is_named_and_no_other_lock_is(
    dsn: str, new: Database, bare: Session
) -> None:
    """Advisory locks are numbers, and the application has its own."""
    said: list[str] = []
    pid = bare.connection.get_server_pid()
    async with session(dsn, "other") as application, anyio.create_task_group() as group:
        nobody = application.connection.get_server_pid()
        await application.rows("select pg_advisory_lock(1), pg_advisory_lock(hashtextextended('other:migrate', 0))")
        await bare.rows("select pg_advisory_lock(hashtextextended($1, 0))", f"{bare.schema}:migrate")
        group.start_soon(migrate, new, said.append)
        await wait_until(lambda: said, description="a try")
        await bare.rows("select pg_advisory_unlock_all()")

    assert f"held by pid {pid} (test: select pg_advisory_lock" in said[0]
    assert f"pid {nobody} " not in said[0]


@pytest.mark.usefixtures("quick")
async def test_a_lock_that_is_never_released_is_an_error(
    new: Database, bare: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is raised after a number of tries."""
    monkeypatch.setattr(module, "LOCK_TRIES", 2)
    said: list[str] = []
    await bare.rows("select pg_advisory_lock(hashtextextended($1, 0))", f"{bare.schema}:migrate")
    with pytest.raises(StoreError, match="lock timeout") as error:
        await migrate(new, said.append)

    assert ("55P03", 1) == (error.value.sqlstate, len(said))


async def test_the_roles_statement_timeout_does_not_end_a_migration(
    new: Database, bare: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An index on a large table takes its time."""
    name = await bare.value("select current_database()")
    release(monkeypatch, migration("select pg_sleep(0.1)"))
    await bare.execute(f"alter database {name} set statement_timeout = '50ms'")
    try:
        report = await migrate(new)
    finally:
        await bare.execute(f"alter database {name} reset statement_timeout")

    assert NEWEST + 1 == report.version


ALONE = "-- no transaction\ncreate index concurrently later_index on asyncq._jobs (priority)"


async def test_a_file_without_a_transaction_runs_alone(
    new: Database, bare: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`create index concurrently` is refused inside of one."""
    release(monkeypatch, migration(ALONE))
    report = await migrate(new)
    again = await migrate(new)

    assert (f"{NEWEST + 1:06}_later", ()) == (report.applied[-1], again.applied)
    assert [True] == await bare.values(
        "select indisvalid from pg_index where indexrelid = 'asyncq.later_index'::regclass"
    )
    assert NEWEST + 1 in await installed(bare)


async def test_through_a_pooler_a_file_without_a_transaction_is_refused_and_the_others_are_applied(
    new: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock of migrations would stay with a session that the pooler gives to others."""
    release(monkeypatch, migration(ALONE))
    with pytest.raises(ConfigurationError, match="directly to the server"):
        await migrate(Database(pooled(new.dsn), new.schema))
    report = await migrate(new)

    assert (f"{NEWEST + 1:06}_later",) == report.applied


async def test_an_invalid_index_of_an_earlier_try_is_dropped_first(
    new: Database, bare: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupted build leaves its name behind. Indexes of others are left alone."""
    release(monkeypatch, migration(ALONE))
    with monkeypatch.context() as older:
        release(older)
        await migrate(new)
    await bare.execute("""
        create index later_index on asyncq._jobs (revision);
        create index their_index on asyncq._jobs (revision);
        update pg_index set indisvalid = false
          where indexrelid in ('asyncq.later_index'::regclass, 'asyncq.their_index'::regclass)""")
    await migrate(new)
    text = await bare.value("select pg_get_indexdef('asyncq.later_index'::regclass)")

    assert "(priority)" in text
    assert [False] == await bare.values(
        "select indisvalid from pg_index where indexrelid = 'asyncq.their_index'::regclass"
    )


async def test_four_at_once_build_an_index_once(new: Database, bare: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one neither waits with a snapshot, for which the build would wait, nor drops what is being built."""
    release(monkeypatch, migration(ALONE))
    applied: list[tuple[str, ...]] = []

    async def install() -> None:
        applied.append((await migrate(new)).applied)

    async with anyio.create_task_group() as group:
        for _ in range(4):
            group.start_soon(install)
    names = [name for names in applied for name in names]

    assert sorted(item.name for item in module.migrations()) == sorted(names)


@pytest.mark.usefixtures("quick")
async def test_a_transaction_that_an_index_build_waits_for_is_named(
    dsn: str, new: Database, bare: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any one in the database that is older than the build."""
    release(monkeypatch, migration(ALONE))
    said: list[str] = []
    async with session(dsn, bare.schema) as user:
        await user.execute("begin isolation level repeatable read; select 'an old report'")
        pid = user.connection.get_server_pid()
        async with anyio.create_task_group() as group:
            group.start_soon(migrate, new, said.append)
            await wait_until(lambda: said, description="a try")
            await user.execute("commit")

    assert f"pid {pid} (test: begin isolation level" in said[-1]
    assert NEWEST + 1 in await installed(bare)


async def test_the_error_for_a_missing_schema_names_the_command(new: Database, bare: Session) -> None:
    """The client and the worker check it first."""
    with pytest.raises(SchemaMissing, match=f"is not installed; run `asyncq migrate --schema {bare.schema}`"):
        await check_version(bare.connection, bare.schema)


async def test_the_error_for_an_old_schema_names_the_missing_migrations(
    new: Database, bare: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are listed by name."""
    await migrate(new)
    release(monkeypatch, migration("select 1"))
    with pytest.raises(SchemaMissing, match=f"{NEWEST + 1:06}_later; run `asyncq migrate --schema {bare.schema}`"):
        await check_version(bare.connection, bare.schema)


async def test_a_newer_schema_is_accepted_unless_it_breaks(
    new: Database, bare: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers of the old release continue during a rollout."""
    with monkeypatch.context() as newer:
        release(newer, migration("select 1"))
        await migrate(new)
    accepted = await check_version(bare.connection, bare.schema)
    older_ones = migration(f"-- breaking: needs {NEWEST:06} of 0.0.9\nselect 1", NEWEST + 2)
    with monkeypatch.context() as newer:
        release(newer, migration("select 1"), older_ones)
        await migrate(new)
    breaks_older_ones = await check_version(bare.connection, bare.schema)
    with monkeypatch.context() as newer:
        breaking = migration("-- breaking: needs 000099 of 7.0.0\nselect 1", NEWEST + 3)
        release(newer, migration("select 1"), older_ones, breaking)
        await migrate(new)
    with pytest.raises(
        SchemaTooNew, match=rf"needs asyncq 7.0.0 .*{NEWEST + 3:06}_later,.* up to {NEWEST:06}; .*upgrade"
    ):
        await check_version(bare.connection, bare.schema)

    assert (NEWEST + 1, NEWEST + 2) == (accepted, breaks_older_ones)


async def test_the_status_lists_pending_migrations_and_changes_nothing(new: Database, bare: Session) -> None:
    """It is for a check before a deployment."""
    before = await status(new)
    still_absent = await bare.value("select to_regnamespace($1) is null", bare.schema)
    await migrate(new)
    after = await status(new)

    assert (0, tuple(item.name for item in migrations()), True) == (before.version, before.pending, still_absent)
    assert (NEWEST, ()) == (after.version, after.pending)


def test_migrations_are_numbered_without_a_gap_and_have_names() -> None:
    """Their numbers are the versions; a number twice would hide one of the two."""
    known = migrations()

    assert [*range(1, len(known) + 1)] == [item.id for item in known]
    assert all(item.text.startswith("-- ") for item in known)


def test_a_breaking_migration_declares_its_requirement() -> None:
    """It is in the first two lines, beside a comment or the mark of no transaction. It never needs more than itself."""
    line = "-- breaking: needs 000003 of 0.3.0"
    texts = (
        f"{line}\nselect 1",
        f"-- no transaction\n{line}\nselect 1",
        f"-- Names.\nselect 1;\n{line}",
        "-- breaking",
    )
    needs = (3, "0.3.0")

    assert [needs, needs, None, None] == [migration(text).needs for text in texts]
    assert [] == [item.name for item in migrations() if "-- breaking" in item.text and item.needs is None]
    assert [] == [item.name for item in migrations() if item.needs is not None and item.needs[0] > item.id]


async def test_our_own_table_is_known_where_the_server_quotes_all_names(new: Database, bare: Session) -> None:
    """`quote_all_identifiers`, as of a role that makes dumps: the types of its columns read otherwise there."""
    joint = "&" if "?" in new.dsn else "?"
    quoting = Database(f"{new.dsn}{joint}quote_all_identifiers=on", new.schema)
    applied = [len((await migrate(quoting)).applied) for _ in range(2)]

    assert [len(migrations()), 0] == applied
