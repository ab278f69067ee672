"""Fixtures of the faces' tests."""

import pytest

from tests.engine.seen import Seen


@pytest.fixture
def seen() -> Seen:
    """Keeps the events of the test's workers."""
    return Seen()
