"""The bugs that `make test-mutants` plants can be planted: nobody notices else that one has no place any more."""

import pytest

from tests.crash.mutants import CHECKOUT, MUTANTS, Planted
from tests.crash.planting import Replaced, ReplacedSql


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_bug_has_its_place_and_tests_that_find_it(mutant: Planted) -> None:
    """What it replaces is there under its name, or as a piece of text; so are the files and functions of its tests."""
    missing = [test for test in mutant.tests if not _is_there(test)]

    assert (None, []) == (mutant.trouble(), missing)


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
    """It would be planted nowhere, or beside the right function."""
    assert trouble == mutant.trouble()


def _is_there(test: str) -> bool:
    name, _, case = test.partition("::")
    path = CHECKOUT / name
    function, _, _ = case.partition("[")
    return path.exists() and (not function or f"def {function}(" in path.read_text("utf-8"))
