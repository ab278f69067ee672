"""The demo's own tables in the schema of asyncq: made before the first job, read during the run and at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

import msgspec

from asyncq.store.failures import calling
from examples.demo.files import LONGEST, package_of
from examples.demo.place import Place
from examples.demo.tasks import STUMBLES

MAKE_TABLES = """
create table packages (name text primary key, files_left int not null);
create table files (
  file text primary key, package text not null, lines int not null, words int not null, imports int not null,
  problem text, worker int not null, started_at timestamptz not null, ended_at timestamptz not null
);
create table functions (file text, line int, name text not null, lines int not null, primary key (file, line));
create table tallies (
  package text primary key, files int not null, lines int not null, words int not null, imports int not null,
  worker int not null, started_at timestamptz not null, ended_at timestamptz not null
);
create table tries (number int primary key, at timestamptz not null);
create table appointments (due timestamptz primary key, kept timestamptz not null);
"""

MAKE_PACKAGES = "insert into packages (name, files_left) select * from unnest($1::text[], $2::int[])"

WATCH = """
select
  (select count(*) from files) as files,
  (select count(*) from tallies) as tallies,
  (select count(*) from tries) as attempts,
  (select count(*) from appointments) as appointments,
  (
    select jobs.task_identifier || ': ' || jobs.last_error
    from jobs
    where jobs.attempts >= jobs.max_attempts and jobs.locked_at is null
    limit 1
  ) as failed
"""

LONGEST_FUNCTIONS = "select lines, name, file, line from functions order by lines desc, file, line limit $1"

TOTALS = "select sum(files) as files, sum(lines) as lines, sum(words) as words, sum(imports) as imports from tallies"

PROBLEMS = "select file, problem from files where problem is not null order by file"

TALLIES = """
select count(*) as jobs, count(distinct worker) as workers, count(*) filter (where started_at < before) as overlaps
from (select worker, started_at, lag(ended_at) over (order by started_at) as before from tallies) as timed
"""

PLACES = """
select min(place) as first, max(place) as last
from (select file, row_number() over (order by started_at) as place from files) as placed
where file = any($1::text[])
"""

SPEED = "select count(*) as jobs, extract(epoch from max(ended_at) - min(started_at))::float8 as seconds from files"

SHARES = "select count(*) as jobs from files group by worker order by min(started_at)"

ATTEMPTS = "select extract(epoch from at - min(at) over ())::float8 as after from tries order by number"

APPOINTMENT = "select extract(epoch from kept - due)::float8 as late from appointments"


class Progress(msgspec.Struct, frozen=True):
    """The progress of the jobs.

    Attributes:
        files: How many files are counted.
        tallies: How many packages are tallied.
        attempts: How often `stumble` was tried.
        appointments: 1 when the job for later has run.
        failed: A discarded job, with its error.
    """

    files: int = 0
    tallies: int = 0
    attempts: int = 0
    appointments: int = 0
    failed: str | None = None


class Tables:
    """The demo's tables, over one connection.

    Args:
        place: The place of the demo.
        connection: A connection to it.
        files: The files to count.
    """

    def __init__(self, place: Place, connection: Any, files: Iterable[str]) -> None:
        self._schema = place.schema
        self.connection = connection
        self._packages = Counter(package_of(file) for file in files)
        self._end = Progress(sum(self._packages.values()), len(self._packages), STUMBLES + 1, 1)

    async def make(self) -> None:
        """Make the tables; a package knows how many of its files are not counted yet."""
        with calling(self._schema):
            await self.connection.execute(MAKE_TABLES)
            await self.connection.execute(MAKE_PACKAGES, list(self._packages), list(self._packages.values()))

    async def in_future(self, delay: timedelta) -> datetime:
        """A later time by the server's clock, which decides when a job is due."""
        at: datetime = (await self.rows("select clock_timestamp() + $1 as at", delay))[0]["at"]
        return at

    async def progress(self) -> Progress:
        """Read the progress of the jobs."""
        return Progress(**(await self.rows(WATCH))[0])

    def is_end(self, progress: Progress) -> bool:
        """Whether all jobs are done."""
        return progress == self._end

    async def rows(self, statement: str, *values: Any) -> list[dict[str, Any]]:
        """The rows of one of the statements above."""
        with calling(self._schema):
            return [dict(row) for row in await self.connection.fetch(statement, *values)]

    async def longest(self) -> list[dict[str, Any]]:
        """The longest functions, the longest first."""
        return await self.rows(LONGEST_FUNCTIONS, LONGEST)


@asynccontextmanager
async def tables(place: Place, files: Iterable[str]) -> AsyncGenerator[Tables]:
    """Connect to the tables until the block ends; they are dropped with the schema.

    Args:
        place: The place of the demo.
        files: The files to count.

    Yields:
        The tables, not made yet.
    """
    connection = await place.database.connect("demo")
    try:
        # By a bare name the store's connections find only the server's own tables; these tables are the demo's.
        with calling(place.schema):
            await connection.execute(f"set search_path = {place.schema}")
        yield Tables(place, connection, files)
    finally:
        await connection.close(timeout=1.0)
