"""`_overlap`: the same as asyncq/domain/cron/overlap.py."""

import json

import pytest

from asyncq.domain.cron.overlap import OVERLAPS, overlap_policy
from tests.support.session import Session


@pytest.mark.parametrize("overlap", OVERLAPS)
@pytest.mark.parametrize("item", ["a", "größer", 'with "quotes"'])
async def test_sql_sends_the_same_rules_as_python(sql: Session, item: str, overlap: str) -> None:
    """A job that is run by hand in SQL conflicts with those of the slots."""
    found = await sql.value("select asyncq._overlap($1, $2)::text", item, overlap)
    policy = overlap_policy(item, overlap)
    expected = policy and {"unique_key": rf"\x{policy[0]}", "on_conflict": policy[1]}

    assert expected == (found and json.loads(found))
