"""No migration holds a lock on a table that grows for as long as it takes to read the table."""

import re

import pytest

from asyncq.store.migrate import Migration, migrations

BASELINE = 5  # the last migration of the first release, which runs on an empty database
GROWING = ("_jobs", "_attempts", "_ended_jobs", "_requests", "_key_locks")
QUICK = re.compile(
    r"""
    create\ index\ concurrently\b .*
    | drop\ index\b .*
    | comment\ on\b .*
    | create\ (or\ replace\ )?(view|function|trigger)\b .*
    | alter\ table\ (only\ )?asyncq\.\w+\ (?:(?:,\ )?(?:
        add\ column\ (?!.*\b(?:generated|unique|primary|references|check|clock_timestamp|random|nextval)\b)[^,]*
        | drop\ (?:column|constraint)\ [^,]*
        | alter\ (?:column\ )?\w+\ (?:drop\ [^,]*|set\ (?:default|statistics|storage)\ [^,]*)
        | (?:re)?set\ \(.*\)
        | add\ constraint\ .*\ not\ valid
        | rename\ .*
      ))+
    """,
    re.VERBOSE,
)


def slow_statements(migration: Migration) -> list[str]:
    """The statements of a migration that may read a table that grows while they lock it."""
    text = re.sub(r"--.*", "", re.sub(r"\$\$.*?\$\$", "", migration.text, flags=re.DOTALL))
    statements = [" ".join(statement.lower().split()) for statement in text.split(";")]
    return [
        statement
        for statement in statements
        if re.search(rf"\basyncq\.({'|'.join(GROWING)})\b", statement)
        and (not QUICK.fullmatch(statement) or (" concurrently " in statement) != migration.is_alone)
    ]


def test_no_migration_locks_a_large_table_for_long() -> None:
    """Build an index with `-- no transaction` and `create index concurrently`; add a constraint as `not valid`."""
    later = [migration for migration in migrations() if migration.id > BASELINE]

    assert {} == {migration.name: slow for migration in later if (slow := slow_statements(migration))}


@pytest.mark.parametrize(
    "text",
    [
        "create index jobs_found on asyncq._jobs (run_at)",
        "create unique index jobs_found\n  on asyncq._jobs (run_at)",
        "create index concurrently jobs_found on asyncq._jobs (run_at)",
        "-- no transaction\ncreate index jobs_found on asyncq._jobs (run_at)",
        "alter table asyncq._jobs add column a int, add constraint a_check check (a > 0)",
        "alter table asyncq._jobs add column a int check (a > 0)",
        "alter table asyncq._jobs add column a timestamptz default clock_timestamp()",
        "alter table asyncq._jobs alter column key type varchar",
        "alter table asyncq._jobs alter column key set not null",
        "update asyncq._requests set digest = null",
        "create table asyncq._new (id int); insert into asyncq._new select id from asyncq._ended_jobs",
        "reindex table asyncq._key_locks",
    ],
)
def test_a_statement_that_reads_a_large_table_is_found(text: str) -> None:
    """The rule is not blind."""
    assert slow_statements(Migration(99, "000099_later", text))


@pytest.mark.parametrize(
    "text",
    [
        "-- no transaction\ncreate index concurrently jobs_found on asyncq._jobs (run_at)",
        'alter table asyncq._jobs add column a text collate "C", add column b int not null default 0, drop column c',
        "alter table asyncq._jobs add constraint a_check check (a > 0) not valid",
        "alter table asyncq._jobs alter payload set storage external, set (fillfactor = 90)",
        "alter table asyncq._jobs_archive add constraint a_check check (a > 0)",
        "drop index asyncq.jobs_found",
        "create function asyncq._found() returns int language sql as $$ select count(*)::int from asyncq._jobs; $$",
        "-- create index jobs_found on asyncq._jobs (run_at)",
    ],
)
def test_a_statement_that_reads_no_large_table_is_free(text: str) -> None:
    """A statement that changes the catalogue alone takes milliseconds."""
    assert [] == slow_statements(Migration(99, "000099_later", text))
