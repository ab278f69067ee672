"""House rules that need the catalogue: names, overloads, privileges, the columns of the public view."""

from asyncq.store.statements import folder
from tests.support.session import Session

VIEW = """id bigint, queue_name text, task_identifier text, priority smallint, run_at timestamp with time zone,
attempts smallint, max_attempts smallint, last_error text, created_at timestamp with time zone,
updated_at timestamp with time zone, key text, locked_at timestamp with time zone, locked_by text, revision integer,
flags jsonb"""

SPEC = """identifier text, payload json, queue_name text, run_at timestamp with time zone, max_attempts smallint,
job_key text, priority smallint, flags text[], job_key_mode text, options jsonb"""

COLUMNS = """
select string_agg(attname || ' ' || format_type(atttypid, atttypmod), ', ' order by attnum)
from pg_catalog.pg_attribute
where attrelid = $1::text::regclass and attnum > 0 and not attisdropped
"""


async def columns(sql: Session, relation: str) -> str:
    """The columns of a relation with their types."""
    return await sql.value(COLUMNS, f"{sql.schema}.{relation}")


async def test_the_view_has_the_columns_that_were_promised(sql: Session) -> None:
    """Others read it: columns may be added at its end, none is removed, and it has no payload."""
    assert VIEW.replace("\n", " ") == await columns(sql, "jobs")


async def test_a_job_spec_keeps_its_attributes(sql: Session) -> None:
    """Callers write `(...)::asyncq.job_spec` with all of them, in this order: a new option is a member of the last."""
    assert SPEC.replace("\n", " ") == await columns(sql, "job_spec")


async def test_each_function_has_one_overload(sql: Session) -> None:
    """A remaining old signature would make every call ambiguous."""
    overloads = await sql.values("""
        select proname from pg_catalog.pg_proc where pronamespace = 'asyncq'::regnamespace
        group by proname having count(*) > 1""")

    assert [] == overloads


async def test_every_constraint_and_index_has_a_name_of_ours(sql: Session) -> None:
    """Names that the server makes up differ between servers, and migrations could not name them."""
    names = await sql.values("""
        select conname::text from pg_catalog.pg_constraint
        where connamespace = 'asyncq'::regnamespace and contype <> 'n'
        union
        select relname::text from pg_catalog.pg_class where relnamespace = 'asyncq'::regnamespace and relkind = 'i'""")
    text = "\n".join(path.read_text("utf-8") for path in (folder() / "migrations").glob("*.sql"))
    made_up = [name for name in names if name not in text and name != "migrations_pkey"]

    assert names
    assert [] == made_up


async def test_public_has_no_privileges(sql: Session) -> None:
    """The server grants EXECUTE on new functions to PUBLIC."""
    owned = await sql.values("""
        select 'schema' from pg_catalog.pg_namespace, aclexplode(coalesce(nspacl, acldefault('n', nspowner))) as entry
        where oid = 'asyncq'::regnamespace and entry.grantee = 0
        union all
        select relname from pg_catalog.pg_class, aclexplode(
          coalesce(relacl, acldefault(case relkind when 'S' then 's'::"char" else 'r' end, relowner))) as entry
        where relnamespace = 'asyncq'::regnamespace and relkind in ('r', 'v', 'S') and entry.grantee = 0
        union all
        select proname from pg_catalog.pg_proc, aclexplode(coalesce(proacl, acldefault('f', proowner))) as entry
        where pronamespace = 'asyncq'::regnamespace and entry.grantee = 0""")

    assert [] == owned


async def test_a_role_without_rights_cannot_add_a_job(sql: Session) -> None:
    """Such a role cannot even use the schema."""
    await sql.execute("create role asyncq_stranger")
    await sql.execute("set local role asyncq_stranger")

    assert "42501" == (await sql.refusal("select asyncq.add_job('t')")).sqlstate


async def test_two_running_jobs_of_one_queue_cannot_be_stored(sql: Session) -> None:
    """If the first fence of serial queues failed, the database would refuse."""
    await sql.execute("select asyncq.add_job('t', queue_name := 'q'), asyncq.add_job('t', queue_name := 'q')")
    error = await sql.refusal("update asyncq._jobs set locked_by = 1, locked_at = now(), lock_token = 1")

    assert ("23505", "jobs_one_running_per_queue") == (error.sqlstate, error.constraint_name)
