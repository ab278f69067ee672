"""The effect of the handlers of transactional tests: a row for each run that was committed."""

from contextlib import suppress

import asyncpg

IN_TRANSACTION = "application_name ~ ('^' || $1 || ' worker [0-9]+ job [0-9]+$')"


async def end_transactions(db: asyncpg.Connection, schema: str) -> int:
    """Let the server end the connections on which jobs of a schema hold a transaction; returns how many there were."""
    sql = f"select count(pg_terminate_backend(pid)) from pg_stat_activity where {IN_TRANSACTION}"
    return await db.fetchval(sql, schema)


async def commits(db: asyncpg.Connection, schema: str) -> bool:
    """Whether the transaction of a job of a schema is in the middle of its COMMIT."""
    sql = f"""
        select exists (
          select from pg_stat_activity where {IN_TRANSACTION} and query = 'COMMIT' and state = 'active')"""
    return await db.fetchval(sql, schema)


class Effects:
    """A table in a test's schema, and its rows.

    Attributes:
        insert: The statement that stores the id of a handler's job.
    """

    def __init__(self, db: asyncpg.Connection, schema: str) -> None:
        self._db = db
        self._table = f"{schema}.effects"
        self.insert = f"insert into {self._table} (job_id) values ($1)"

    async def create(self) -> None:
        """Make the table."""
        await self._db.execute(f"create table {self._table} (job_id bigint not null)")

    async def drop(self) -> None:
        """Remove the table, so that the schema can be used again; not while a transaction of the test is open."""
        with suppress(asyncpg.LockNotAvailableError):
            await self._db.execute(f"""
                drop table {self._table};
                drop function if exists {self._table}_committing();""")

    async def kept(self) -> list[int]:
        """The ids of the jobs, once for each run that was kept."""
        return [row[0] for row in await self._db.fetch(f"select job_id from {self._table} order by job_id")]

    async def on_commit(self, statement: str) -> None:
        """Let each transaction that has written do something at its COMMIT, before it is committed."""
        await self._db.execute(f"""
            create function {self._table}_committing() returns trigger language plpgsql as $$
            begin
              {statement};
              return null;
            end $$;
            create constraint trigger committing after insert on {self._table}
              deferrable initially deferred for each row execute function {self._table}_committing()""")
