"""`_overlap`: the same as asyncq/domain/cron/overlap.py."""

import json

import pytest

from asyncq.domain.cron.overlap import OVERLAPS, overlap_question
from tests.support.session import Session


@pytest.mark.parametrize("overlap", OVERLAPS)
@pytest.mark.parametrize("item", ["a", "größer", 'with "quotes"'])
async def test_sql_asks_the_same_as_python(sql: Session, item: str, overlap: str) -> None:
    """A job that is run by hand in SQL meets those of the slots."""
    found = await sql.value("select asyncq._overlap($1, $2)::text", item, overlap)
    expected = overlap_question(item, overlap)

    assert (expected and json.loads(expected)) == (found and json.loads(found))
