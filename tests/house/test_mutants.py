"""The bugs that `make test-mutants` plants can be planted: nobody notices else that one has no place any more."""

import pytest

from tests.crash.mutants import CHECKOUT, MUTANTS, Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_bug_has_its_place_and_tests_that_find_it(mutant: Mutant) -> None:
    """The piece of text that it changes stands in its file once; the files and the functions of its tests are there."""
    text = (CHECKOUT / mutant.path).read_text("utf-8")
    missing = [test for test in mutant.tests if not _is_there(test)]

    assert (1, []) == (text.count(mutant.right), missing)
    assert mutant.wrong != mutant.right


def _is_there(test: str) -> bool:
    name, _, case = test.partition("::")
    path = CHECKOUT / name
    function, _, _ = case.partition("[")
    return path.exists() and (not function or f"def {function}(" in path.read_text("utf-8"))
