"""The test kit: a schema for a test, a run of due jobs, assertions about added jobs, a clock that can be moved.

    @pytest.fixture
    async def schema(dsn: str) -> AsyncIterator[str]:
        async with temporary_schema(dsn) as name:
            yield name

    async def test_signing_up_sends_a_welcome(dsn: str, schema: str) -> None:
        async with Client(dsn, schema=schema) as client:
            await sign_up("ada@example.org", client)
            await assert_added(client, send_email, to="ada@example.org", queue="mail")

        ran = await run_due(dsn, [send_email], schema=schema, raise_errors=True)

        assert len(ran.completed) == 1

Tests are coroutine functions: pytest runs them with anyio's plugin (`anyio_mode = "auto"` in pytest's configuration, or
the mark `pytest.mark.anyio`), on asyncio (a fixture `anyio_backend` that returns "asyncio").
"""

from asyncq.testing.added import assert_added, assert_not_added
from asyncq.testing.clock import MovableClock
from asyncq.testing.running import Ran, make_worker, run_due
from asyncq.testing.schema import temporary_schema

__all__ = [
    "MovableClock",
    "Ran",
    "assert_added",
    "assert_not_added",
    "make_worker",
    "run_due",
    "temporary_schema",
]
