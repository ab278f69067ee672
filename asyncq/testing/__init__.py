"""The test kit: a schema for a test, a run of due jobs, assertions about added jobs, a clock that can be moved.

Tests are coroutine functions: pytest runs them with anyio's plugin (`anyio_mode = "auto"` in pytest's configuration, or
the mark `pytest.mark.anyio`), on asyncio (a fixture `anyio_backend` that returns "asyncio").
"""

from asyncq.testing.added import assert_added, assert_not_added
from asyncq.testing.clock import MovableClock
from asyncq.testing.running import Ran, make_worker, run_due
from asyncq.testing.schema import temporary_schema

__all__ = ["MovableClock", "Ran", "assert_added", "assert_not_added", "make_worker", "run_due", "temporary_schema"]
