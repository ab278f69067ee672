"""Forces an interleaving: a statement has taken its snapshot, then the world changes, then it locks its rows."""

from collections.abc import Awaitable
from typing import TypeVar

import anyio

from asyncq.store.statements import texts
from tests.support.session import Session
from tests.support.waiting import LIMIT_S, wait_until

T = TypeVar("T")

# The door of time becomes the place where a statement waits: its conditions look at the time after its snapshot was
# taken and before the first row is locked. Who passes takes the lock, and lets it go at the end of its transaction;
# sessions that are not called `gated` pass freely.
# The planner looks at the time too, before the snapshot: so the statement has to be planned before, for all parameters,
# and nothing must make it be planned again.
DOOR = """
alter table asyncq._jobs set (autovacuum_enabled = off);
alter table asyncq._partitions set (autovacuum_enabled = off);
alter table asyncq._wakeups set (autovacuum_enabled = off);
create function asyncq.passes() returns boolean language plpgsql stable as $$
begin
  if current_setting('application_name') = 'gated' then
    perform pg_advisory_xact_lock_shared(hashtext('asyncq'));
  end if;
  return true;
end $$;
create or replace function asyncq.now() returns timestamptz language plpgsql stable as $$
begin
  perform asyncq.passes();
  return pg_catalog.now();
end $$
"""

NO_DOOR = """
drop function asyncq.passes() cascade;
alter table asyncq._jobs reset (autovacuum_enabled);
alter table asyncq._partitions reset (autovacuum_enabled);
alter table asyncq._wakeups reset (autovacuum_enabled)
"""

GUARD = """
grant usage on schema asyncq to {role};
grant all on all tables in schema asyncq to {role};
grant all on all functions in schema asyncq to {role};
alter table asyncq._jobs enable row level security;
create policy gate on asyncq._jobs using (asyncq.passes());
"""


class Gate:
    """A gate that statements of the schema pass when they look at the time.

    Args:
        keeper: The session that shuts and opens it.
        watcher: Another one, that sees who waits.
    """

    def __init__(self, keeper: Session, watcher: Session) -> None:
        self._keeper = keeper
        self._watcher = watcher

    async def build(self) -> None:
        """Replace the clock function."""
        await self._keeper.execute(DOOR)

    async def remove(self) -> None:
        """Bring back the functions as they were, so that the schema can be used again."""
        await self._keeper.execute(f"{texts('functions')['clock']}; {NO_DOOR}")

    async def guard(self, role: str) -> None:
        """Let every look of a role at a job pass the gate too, in any statement: row security is checked in the scan.

        Args:
            role: A role that is no superuser; it gets all privileges on the schema.
        """
        await self._keeper.execute(GUARD.format(role=role))

    async def during(self, statement: Awaitable[T], change: Awaitable[object]) -> T:
        """Run a statement, and a change between its snapshot and its locks. Returns what the statement returns.

        Args:
            statement: It waits at the gate; it was planned before, by a session that is called `gated`.
            change: It runs meanwhile.
        """
        answers: list[T] = []

        async def run() -> None:
            answers.append(await statement)

        await self._keeper.rows("select pg_advisory_lock(hashtext('asyncq'))")
        async with anyio.create_task_group() as group:
            group.start_soon(run)
            try:
                await wait_until(self._is_waiting, description="the statement to wait at the gate")
                with anyio.fail_after(LIMIT_S):
                    await change
            finally:
                await self._keeper.rows("select pg_advisory_unlock(hashtext('asyncq'))")
        return answers[0]

    async def _is_waiting(self) -> bool:
        return await self._watcher.value("""
            select exists (
              select from pg_catalog.pg_locks
              where locktype = 'advisory' and objid = hashtext('asyncq')::oid and not granted)""")
