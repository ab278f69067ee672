"""`_fits_batch`: whether a payload fits into a batch, as stored in its row and as given by a statement."""

import pytest

from tests.support.jobs import add
from tests.support.session import Session

PAYLOADS = {"'[]'": True, "to_json(repeat('x', 994))": True, "to_json(repeat('x', 995))": False}


@pytest.mark.parametrize("payload", PAYLOADS)
async def test_a_payload_of_nearly_a_thousand_bytes_fits(sql: Session, payload: str) -> None:
    """Its length prefix takes four bytes."""
    await add(sql)
    await sql.execute(f"update asyncq._jobs set payload = {payload}")
    given = await sql.value(f"select asyncq._fits_batch({payload})")
    stored = await sql.value("select asyncq._fits_batch(payload) from asyncq._jobs")

    assert (PAYLOADS[payload],) * 2 == (given, stored)
