"""The bugs that `make test-mutants` plants can be planted: otherwise a stale one would go unnoticed."""

from functools import cache

import pytest

from tests.crash.mutants import CHECKOUT, MUTANTS, Planted
from tests.crash.planting import Replaced, ReplacedSql


def test_a_bug_has_its_place_and_tests_that_find_it() -> None:
    """The code that it replaces exists under its name, or as a piece of text; so do the functions of its tests."""
    troubles = {mutant.name: mutant.trouble() for mutant in MUTANTS}

    assert {} == {name: trouble for name, trouble in troubles.items() if trouble}
    assert [] == [(mutant.name, test) for mutant in MUTANTS for test in mutant.tests if not _is_there(test)]


@pytest.mark.parametrize(
    ("mutant", "trouble"),
    [
        (Replaced("", "asyncq.domain.moment.gone", "", ()), "asyncq/domain/moment.py has no gone"),
        (Replaced("", "asyncq.client.Client.gone", "", ()), "asyncq/client.py has no Client.gone"),
        (ReplacedSql("", "_gone", "() returns int", ()), "sql/functions creates _gone in 0 files"),
        (ReplacedSql("", "_grace", "(int) returns int", ()), "_grace has other arguments than (int)"),
    ],
    ids=str,
)
def test_a_bug_whose_place_is_gone_is_noticed(mutant: Planted, trouble: str) -> None:
    """Otherwise it would be planted nowhere, or beside the right function."""
    assert trouble == mutant.trouble()


def _is_there(test: str) -> bool:
    name, _, case = test.partition("::")
    function, _, _ = case.partition("[")
    text = _text(name)
    return text is not None and (not function or f"def {function}(" in text)


@cache
def _text(name: str) -> str | None:
    path = CHECKOUT / name
    return path.read_text("utf-8") if path.exists() else None
