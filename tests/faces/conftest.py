"""Fixtures of the faces' tests."""

import logging
from collections.abc import Iterator

import pytest

from tests.engine.seen import Seen


@pytest.fixture
def seen() -> Seen:
    """Keeps the events of the test's workers."""
    return Seen()


@pytest.fixture(autouse=True)
def root_logger() -> Iterator[None]:
    """A command that ran in this process has sent all records to a stderr that is closed by the next test."""
    before, level = {*logging.root.handlers}, logging.root.level
    yield
    for handler in {*logging.root.handlers} - before:
        logging.root.removeHandler(handler)
    logging.root.setLevel(level)
