"""A schema that is used again is as new, also in the statistics that functions read."""

import pytest

from tests.support.handoffs import leave_versions
from tests.support.landlord import landlord_of
from tests.support.session import session


@pytest.mark.parametrize("table", ["_batches", "_handoff_slots"])
async def test_a_schema_that_is_used_again_has_no_dead_rows(dsn: str, table: str) -> None:
    """The server counts a truncation late: up to a second after the one before, or ten."""
    counts = []
    with landlord_of(dsn) as landlord:
        for _ in range(2):
            async with landlord.schema() as name, session(dsn, name) as sql:
                counts.append(await sql.value(f"select pg_stat_get_dead_tuples('asyncq.{table}'::regclass)"))
                await leave_versions(sql, table)
            async with landlord.schema() as again, session(dsn, again) as sql:
                counts.append(await sql.value(f"select pg_stat_get_dead_tuples('asyncq.{table}'::regclass)"))

    assert [0, 0, 0, 0] == counts
