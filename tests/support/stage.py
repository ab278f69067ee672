"""A schema with a clock that the test moves, and workers with recurring jobs."""

from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import msgspec

from asyncq import CronItem, Worker
from asyncq.testing import MovableClock, make_worker
from tests.support.seen import Seen
from tests.support.waiting import wait_until

MINUTE = timedelta(minutes=1)
# Half a minute: no test takes so long that a real timer ends.
START = datetime(2024, 5, 1, 12, 0, 30, tzinfo=UTC)


class Stage:
    """A schema with a clock that the test moves, and workers with a crontab."""

    def __init__(self, dsn: str, schema: str, clock: MovableClock, db: asyncpg.Connection, seen: Seen) -> None:
        self.dsn, self.schema, self.clock, self.db, self.seen = dsn, schema, clock, db, seen

    def worker(self, *items: CronItem | str, **options: Any) -> Worker:
        """A worker that runs no jobs, so that their rows can be read."""
        defaults: dict[str, Any] = {"dsn": self.dsn, "tasks": [], "poll": 60, "observers": [self.seen]}
        return make_worker(schema=self.schema, crontab=[*items], **{**defaults, **options})

    async def jobs(self, *, backfilled: bool | None = None) -> list[str]:
        """The jobs in the order of their ids, as task and minute; all, or those that are marked as said."""
        rows = await self.db.fetch(f"""
            select task_identifier as task, stored.run_at, payload::json->'_cron' as cron
            from {self.schema}.jobs join {self.schema}._jobs as stored using (id) order by id""")
        marks = [msgspec.json.decode(row["cron"]) for row in rows]
        assert [f"{row['run_at'].astimezone(UTC):%Y-%m-%dT%H:%M}:00.000Z" for row in rows] == [m["ts"] for m in marks]
        return [
            f"{row['task']} {row['run_at'].astimezone(UTC):%H:%M}"
            for row, mark in zip(rows, marks, strict=True)
            if backfilled in (None, mark["backfilled"])
        ]

    async def wait_for(self, count: int) -> list[str]:
        """Wait until there are so many jobs; returns them."""

        async def are_there() -> bool:
            return len(await self.jobs()) >= count

        await wait_until(are_there, description=f"{count} jobs")
        return await self.jobs()
