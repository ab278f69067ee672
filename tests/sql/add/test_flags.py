"""`_flags`: an array of names becomes an object of trues."""

import json

import pytest

from tests.support.session import Session


@pytest.mark.parametrize(
    ("names", "stored"),
    [(None, None), ([], None), (["a"], {"a": True}), (["b", "a", "b"], {"a": True, "b": True}), ([""], {"": True})],
)
async def test_flags_are_stored_once_each_and_none_as_null(
    sql: Session, names: list[str] | None, stored: dict[str, bool] | None
) -> None:
    """Duplicates are merged. An empty array means no flags, which fetches check first."""
    actual = await sql.value("select asyncq._flags($1)", names)

    assert stored == (actual and json.loads(actual))


@pytest.mark.parametrize("names", [[None], ["a", None]])
async def test_a_null_flag_is_refused(sql: Session, names: list[str | None]) -> None:
    """It has no name that could be forbidden."""
    error = await sql.refusal("select asyncq._flags($1)", names)

    assert ("22023", "flags") == (error.sqlstate, error.column_name)
