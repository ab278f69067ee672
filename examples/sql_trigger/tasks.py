"""The tasks that the triggers start. A trigger sends ids, not rows: the job reads the row when it runs."""

from typing import Literal

import msgspec

from asyncq import JobContext, Task, task


@task
async def welcome_user(user_id: int, ctx: JobContext) -> None:
    """Greet a new user; the condition makes a second run of the same job harmless."""
    await ctx.query("update users set welcomed_at = now() where id = $1 and welcomed_at is null", user_id)
    ctx.logger.info("welcomed user %s", user_id)


class RowChanged(msgspec.Struct, frozen=True):
    """The payload of `add_job_for_row`, for any table."""

    table: str
    op: Literal["insert", "update"]
    id: int


@task
async def count_words(change: RowChanged, ctx: JobContext) -> None:
    """Count the words of a written document; its queue prevents an older count from overwriting a newer one."""
    rows = await ctx.query("select body from documents where id = $1", change.id)
    if not rows:
        return  # deleted in the meantime: nothing to do, and no reason to fail
    words = len(rows[0]["body"].split())
    await ctx.query("update documents set words = $2 where id = $1", change.id, words)
    ctx.logger.info("%s of %s %s: %s words", change.op, change.table, change.id, words)


TASKS: list[Task[...]] = [welcome_user, count_words]
