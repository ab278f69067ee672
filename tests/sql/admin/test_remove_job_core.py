"""`_remove_job`: what the removal of a key leaves behind."""

import pytest

from tests.support.keyed import KEY, hold
from tests.support.session import Session

KEEP = """
update asyncq._jobs set keep_until = now() + interval '1 h', keep_states = '{completed,cancelled,discarded}'
"""


@pytest.mark.parametrize(
    ("state", "ended"),
    [("scheduled", "cancelled"), ("retryable", "cancelled"), ("discarded", "discarded"), ("active", None)],
)
async def test_what_asked_to_be_kept_is_kept(sql: Session, state: str, ended: str | None) -> None:
    """A removed job was never done; one that was discarded stays that."""
    job = await hold(sql, state)
    await sql.execute(KEEP)
    (document,) = await sql.values("select document::json ->> 'id' from asyncq._remove_job($1)", KEY)

    assert str(job["id"]) == document
    assert ([ended] if ended else []) == await sql.values("select state from asyncq._ended_jobs")
