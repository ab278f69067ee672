"""`_add_asking_jobs`: requests are checked first, then the jobs are added at once, or, if they share keys, in turn."""

import pytest

from tests.sql.session import Session

ADD = """
select outcome
from asyncq._add_asking_jobs(
  array['t', 't'], array['1', '2']::json[], null, null, null, null, null, null, null, null,
  array['{{"key": "{0}", {2}}}', '{{"key": "{1}", {2}}}']::jsonb[], '{3}')
order by ord
"""
ASKED = '"on_conflict": "ignore", "states": ["available"]'
ONE, OTHER = "aa" * 32, "bb" * 32


@pytest.mark.parametrize(
    ("second", "keys", "outcomes"), [(OTHER, "held", ["added", "added"]), (ONE, "doubled", ["added", "deduplicated"])]
)
async def test_jobs_that_share_a_key_are_added_as_if_one_by_one(
    sql: Session, second: str, keys: str, outcomes: list[str]
) -> None:
    """The act that takes them all at once would add both."""
    assert outcomes == await sql.values(ADD.format(ONE, second, ASKED, keys))


async def test_a_request_that_was_made_for_something_else_is_refused(sql: Session) -> None:
    """Before anything is added."""
    await sql.execute("select asyncq.add_job('t', '[1]', options => '{\"idempotency_key\": \"r\"}')")
    error = await sql.refusal(ADD.format(ONE, OTHER, '"request": "r", "window_s": 60', "doubled"))

    assert "GWBIK" == error.sqlstate
