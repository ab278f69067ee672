"""`store.sessions`: the pool mode that a pooler reports at the login; PgBouncer does so since 1.26."""

from types import SimpleNamespace
from typing import Any

import pytest

from asyncq import ConfigurationError
from asyncq.store.sessions import check_mode


def connection_of_mode(mode: str | None) -> Any:
    """A connection whose pooler reported this mode at the login; None for one without a report."""
    settings = SimpleNamespace() if mode is None else SimpleNamespace(**{"pgbouncer.pool_mode": mode})
    return SimpleNamespace(get_settings=lambda: settings)


def refusal(mode: str | None, *, is_pooled: bool) -> str | None:
    """The message with which a mode is refused; None if it is accepted."""
    try:
        check_mode(connection_of_mode(mode), is_pooled=is_pooled)
    except ConfigurationError as error:
        return str(error)
    return None


@pytest.mark.parametrize(
    ("mode", "is_pooled"),
    [(None, False), (None, True), ("session", False), ("session", True), ("transaction", True)],
)
def test_a_mode_that_fits_or_is_unknown_is_accepted(mode: str | None, is_pooled: bool) -> None:
    """Most poolers report no mode. Their sessions are tested then."""
    assert refusal(mode, is_pooled=is_pooled) is None


@pytest.mark.parametrize(
    ("mode", "is_pooled", "said"),
    [
        ("transaction", False, "add statement_cache_size=0"),
        ("statement", False, "pools by statement"),
        ("statement", True, "pools by statement"),
    ],
)
def test_a_mode_that_does_not_fit_is_refused_by_name(mode: str, is_pooled: bool, said: str) -> None:
    """The error would otherwise be that of a lost connection, without a hint to the pooler."""
    assert said in (refusal(mode, is_pooled=is_pooled) or "")
