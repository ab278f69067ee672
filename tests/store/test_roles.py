"""`store.roles`: the statement by which a role adds; all give the same result."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import asyncpg
import msgspec
import pytest

from asyncq.domain.errors import AccessDenied, ConfigurationError, InvalidJob, SchemaMissing
from asyncq.domain.job import Added, JobSpec
from asyncq.domain.time_limit import Timeout
from asyncq.domain.unique import UniquePolicy
from asyncq.store.add import HandoffHints, add_jobs
from asyncq.store.database import Database
from asyncq.store.migrate import check_version, migrate
from asyncq.store.roles import WayIn, apply, script, way_in
from tests.support.roles import Roles, three_roles
from tests.support.session import Session, session

WAYS: dict[str, WayIn] = {"owner": "directly", "worker": "directly", "enqueuer": "by_enqueue", "stranger": "directly"}

# For each field of a spec a value that is not its default.
OTHER: dict[str, Any] = {
    "task": "other",
    "payload": '{"a": 1.50, "é": "\\"\\\\ \\u2028"}',
    "queue": "q",
    "run_at": datetime(2040, 1, 1, 12, tzinfo=timezone(timedelta(hours=5, minutes=30, seconds=15))),
    "max_attempts": 3,
    "priority": -7,
    "flags": ("eu", "us"),
    "job_key": "k",
    "job_key_mode": "unsafe_dedupe",
    "meta": '{"m": [1, null]}',
    "unique": UniquePolicy(keys=["args", "queue"], period="PT1H"),
    "singleton": True,
    "subject": "s",
    "force": True,
    "rerun": True,
    "idempotency_key": "k",
    "timeout": Timeout(soft=1.5, hard=30),
    "deadline": datetime(2042, 1, 1, 12, tzinfo=UTC),
    "expires": datetime(2041, 1, 1, 12, tzinfo=timezone(timedelta(hours=5, minutes=30, seconds=15))),
    "keep": 0.0,
    "after": (1,),
    "if_failed": "run",
    "takes": "results",
    "takes_as": "parts",
}
# The object of each field.
ABOUT: dict[str, Any] = {field: {"singleton": True} for field in ("subject", "force", "rerun")}
ABOUT["job_key_mode"] = {"job_key": "k"}
ABOUT["if_failed"] = ABOUT["takes"] = {"after": (1,)}
ABOUT["takes_as"] = {"after": (1,), "takes": "result"}

SPECS = [
    JobSpec(task="plain"),
    JobSpec(
        **{
            name: value
            for name, value in OTHER.items()
            if name not in {"singleton", "subject", "rerun", "after", "if_failed", "takes", "takes_as"}
        }
    ),
    JobSpec(task="other", payload='{"\u00e9": "\\"\\\\ \\u2028", "a": 15e-1}', queue="q", unique=OTHER["unique"]),
    JobSpec(task="single", singleton=True, subject="s"),
    JobSpec(task="single", singleton=True, subject="s", rerun=True),
    JobSpec(task="other", payload=OTHER["payload"], idempotency_key="k"),
    JobSpec(task="null", payload="null"),
    JobSpec(task="keyed", job_key="twice", payload="[1]", run_at=datetime(2030, 1, 1, tzinfo=UTC)),
    JobSpec(task="keyed", job_key="twice", payload="[2]", job_key_mode="preserve_run_at"),
    JobSpec(task="keyed", job_key="twice", job_key_mode="unsafe_dedupe"),
]

STORED = """
select task.identifier, job.queue, job.payload::text, job.priority, job.max_attempts, job.key, job.revision,
  job.flags::text, job.meta::text, job.extras::text,
  job.expires_at, job.deadline_at, nullif(job.run_at, job.created_at) as run_at,
  encode(job.unique_key, 'hex') as unique_key, job.keep_states,
  job.keep_until > job.created_at + interval '23 h' as is_kept
from asyncq._jobs as job
join asyncq._tasks as task on task.id = job.task_id
order by job.id
"""


async def test_the_catalogue_decides_by_which_statement_a_role_adds(dsn: str) -> None:
    """No statement is tried, so that none is refused inside a caller's transaction."""
    async with three_roles(dsn) as roles:
        found = {role: await way_of(roles, getattr(roles, role)) for role in WAYS}

    assert WAYS == found


async def way_of(roles: Roles, role: str) -> WayIn:
    """The way of a role, asked on a connection of its own."""
    connection = await asyncpg.connect(roles.dsn_of(role))
    try:
        return await way_in(connection, roles.schema)
    finally:
        await connection.close(timeout=5)


async def test_a_missing_schema_is_reported_by_the_check_of_the_version(db: asyncpg.Connection) -> None:
    """It is the usual error, not one about rights."""
    assert "directly" == await way_in(db, "nowhere")
    with pytest.raises(SchemaMissing, match="run `asyncq migrate --schema nowhere`"):
        await check_version(db, "nowhere")


async def test_both_ways_store_the_same_and_answer_the_same(sql: Session, database: Database, dsn: str) -> None:
    """A service must not behave otherwise because its role has fewer rights."""
    connection = sql.connection
    stored, answers = [], []
    for way in ("directly", "by_enqueue"):
        transaction = connection.transaction()
        await transaction.start()
        added = await add_jobs(database, connection, SPECS, way)
        first = added[0].id
        answers.append([shifted(one, first) for one in added])
        stored.append([tuple(row) for row in await sql.rows(STORED)])
        await transaction.rollback()

    assert stored[0] == stored[1]
    assert answers[0] == answers[1]
    assert ["added", "added", "rejected", "added", "deduplicated", "deduplicated"] == [
        one.outcome for one in answers[0][:6]
    ]
    assert ["added", "added", "updated", "deduplicated"] == [one.outcome for one in answers[0][6:]]


def shifted(added: Added, first: int) -> Added:
    """The answer with ids that are counted from the first one."""
    existing = None if added.existing_id is None else added.existing_id - first
    return msgspec.structs.replace(added, id=added.id - first, existing_id=existing)


# The channel of a client that waits is sent in the record, and never by enqueue: such a role reads no result.
@pytest.mark.parametrize("field", [name for name in JobSpec.__struct_fields__ if name != "returns"])
async def test_no_field_of_a_spec_is_lost_on_the_way(
    sql: Session, database: Database, field: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new option has to be sent by all ways, of one job and of several, and to have a value here."""
    plain = JobSpec(task="t", **ABOUT.get(field, {}))
    specs = [plain, msgspec.structs.replace(plain, **{field: OTHER[field]})]
    sent: list[Any] = []

    async def fetch(query: str, *parameters: Any) -> list[Any]:
        sent.append(parameters)
        if "_add_keyless_job(" in query:
            return [{"id": 1}]
        if "insert into" in query:
            return [{"id": 1}]
        return [] if ".enqueue(" in query else [{"ids": [1], "ords": None}]

    monkeypatch.setattr(asyncpg.Connection, "fetch", lambda _, *parameters: fetch(*parameters))
    hints = HandoffHints()
    ways: list[tuple[WayIn, int, HandoffHints | None]] = [
        *(("directly", 1, hints), ("directly", 1, None)),
        *(("directly", 2, None), ("by_enqueue", 1, None)),
    ]
    for way, count, given in ways:
        for spec in specs:
            await add_jobs(database, sql.connection, [spec] * count, way, hints=given)

    assert [] == [one for one, other in zip(sent[::2], sent[1::2], strict=True) if one == other]


async def test_a_rule_that_only_the_server_checks_is_the_same_error(sql: Session, database: Database) -> None:
    """The codes, the field and the class."""
    errors = []
    for way in ("directly", "by_enqueue"):
        with pytest.raises(InvalidJob) as caught:
            await add_jobs(database, sql.connection, [JobSpec(task="t" * 129)], way)
        errors.append((caught.value.code, caught.value.field, str(caught.value)))

    assert errors[0] == errors[1]


@pytest.mark.usefixtures("sql")
async def test_a_callers_codecs_do_not_matter(dsn: str, database: Database) -> None:
    """Its connection may read and write json in its own way."""
    async with session(dsn, database.schema) as own:
        for name in ("json", "jsonb"):
            await own.connection.set_type_codec(
                name, encoder=lambda _: "broken", decoder=lambda _: "broken", schema="pg_catalog"
            )
        added = await add_jobs(database, own.connection, SPECS[:1], "by_enqueue")

    assert ["added"] == [one.outcome for one in added]


@pytest.mark.parametrize("name", ["", "a\0b"])
def test_an_invalid_name_of_a_role_is_refused(name: str) -> None:
    """It must not become a part of SQL."""
    with pytest.raises(ConfigurationError, match="no name of a role"):
        script("asyncq", worker="w", enqueuer=name)


def test_the_script_of_the_default_schema_is_the_file_with_two_names() -> None:
    """A DBA can read the statements in sql/."""
    text = script("asyncq", worker="app_worker", enqueuer='it\'s "me" \\')

    assert 'grant execute on function asyncq.enqueue to "it\'s ""me"" \\";' in text
    assert "set local asyncq_roles.enqueuer =  E'it''s \"me\" \\\\';" in text
    assert "set local asyncq_roles.worker = 'app_worker';" in text


async def test_a_schema_may_have_a_name_that_no_setting_may_begin_with(dsn: str) -> None:
    """The script hands its two names over as settings, and the server keeps some prefixes for itself."""
    database, names = Database(dsn, "plpgsql"), ("plpgsql_worker", "plpgsql_enqueuer")
    async with session(dsn, "plpgsql") as sql:
        try:
            await migrate(database)
            await apply(database, worker=names[0], enqueuer=names[1])
            may = await sql.value("select has_function_privilege($1, 'asyncq.enqueue(json)', 'execute')", names[1])
        finally:
            await sql.execute(f"""
                set client_min_messages = warning; drop schema asyncq cascade; drop role {", ".join(names)}""")

    assert may


async def test_a_refusal_says_what_to_do(dsn: str) -> None:
    """The server's message names the object, and ours says what to do."""
    async with three_roles(dsn) as roles:
        database = Database(roles.dsn_of(roles.worker), roles.schema)
        with pytest.raises(AccessDenied, match=r"only the owner of schema .* \[42501\]; `asyncq roles --.*` shows"):
            await apply(database, worker=roles.worker, enqueuer=roles.enqueuer)
