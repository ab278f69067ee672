"""`_fits_batch`: whether a batch has room for a payload, as it lies in its row and as a statement brings it."""

import pytest

from tests.support.jobs import add
from tests.support.session import Session

PAYLOADS = {"'[]'": True, "to_json(repeat('x', 994))": True, "to_json(repeat('x', 995))": False}


@pytest.mark.parametrize("payload", PAYLOADS)
async def test_a_payload_of_nearly_a_thousand_bytes_fits(sql: Session, payload: str) -> None:
    """With its length in front, which takes four."""
    await add(sql)
    await sql.execute(f"update asyncq._jobs set payload = {payload}")
    given = await sql.value(f"select asyncq._fits_batch({payload})")
    stored = await sql.value("select asyncq._fits_batch(payload) from asyncq._jobs")

    assert (PAYLOADS[payload],) * 2 == (given, stored)
