"""`store.sessions`: what a pooler says of itself at the login, as PgBouncer does since 1.26."""

from types import SimpleNamespace
from typing import Any

import pytest

from asyncq import ConfigurationError
from asyncq.store.sessions import check_mode


def told(mode: str | None) -> Any:
    """A connection whose pooler said at the login how it pools; None for one that says nothing."""
    settings = SimpleNamespace() if mode is None else SimpleNamespace(**{"pgbouncer.pool_mode": mode})
    return SimpleNamespace(get_settings=lambda: settings)


@pytest.mark.parametrize(
    ("mode", "is_pooled"),
    [(None, False), (None, True), ("session", False), ("session", True), ("transaction", True)],
)
def test_a_mode_that_fits_or_is_unknown_is_accepted(mode: str | None, is_pooled: bool) -> None:
    """Most poolers say nothing: the sessions are looked at then."""
    check_mode(told(mode), is_pooled=is_pooled)


@pytest.mark.parametrize(
    ("mode", "is_pooled", "said"),
    [
        ("transaction", False, "add statement_cache_size=0"),
        ("statement", False, "pools by statement"),
        ("statement", True, "pools by statement"),
    ],
)
def test_a_mode_that_does_not_fit_is_refused_by_name(mode: str, is_pooled: bool, said: str) -> None:
    """The error would otherwise be that of a lost connection, which says nothing of the pooler."""
    with pytest.raises(ConfigurationError, match=said):
        check_mode(told(mode), is_pooled=is_pooled)
