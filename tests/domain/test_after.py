"""The options after and if_failed: what is accepted, and what is refused before any round trip."""

from typing import Any

import pytest

from asyncq.domain.after import LARGEST_ID, MOST_AFTER
from asyncq.domain.deduplication import extra, options
from asyncq.domain.errors import InvalidJob
from asyncq.domain.job import Added, JobSpec


def test_ids_and_handles_are_accepted_once_each_in_their_order() -> None:
    """A program may put lists together."""
    spec = JobSpec(task="t").with_options(after=[Added(7), 3, Added(3)])

    assert ((7, 3), False, False) == (spec.after, spec.is_plain, spec.is_keyless)
    assert '{"after":[7,3]}' == extra(spec)


def test_a_generator_and_an_empty_list_are_accepted() -> None:
    """An empty list is nothing to wait for, whatever if_failed says."""
    assert (2, 1) == JobSpec(task="t").with_options(after=(number for number in (2, 1))).after
    empty = JobSpec(task="t").with_options(after=[], if_failed="run")

    assert (None, {"after": (), "if_failed": "run"}) == (extra(empty), options(empty))


@pytest.mark.parametrize("word", ["wait", "cancel", "run"])
def test_the_default_word_is_not_stored(word: Any) -> None:
    """A job without options has no extras."""
    spec = JobSpec(task="t").with_options(after=[1], if_failed=word)
    extras = "" if word == "wait" else f'"extras":{{"if_failed":"{word}"}},'

    assert f'{{{extras}"after":[1]}}' == extra(spec)


@pytest.mark.parametrize(
    ("given", "field", "said"),
    [
        ({"after": 17}, "after", "after must be a list of ids or handles of jobs, got 17"),
        ({"after": "17"}, "after", "after must be a list of ids or handles of jobs, got '17'"),
        ({"after": ["17"]}, "after", "after must have ids or handles of jobs only, got '17'"),
        ({"after": [True]}, "after", "after must have ids or handles of jobs only, got True"),
        ({"after": [0]}, "after", "after must have ids or handles of jobs only, got 0"),
        ({"after": [LARGEST_ID + 1]}, "after", f"after must have ids or handles of jobs only, got {LARGEST_ID + 1}"),
        ({"after": range(1, MOST_AFTER + 2)}, "after", "after has 100001 ids, at most 100000 are allowed"),
        ({"after": [1], "if_failed": "stop"}, "if_failed", "if_failed must be wait, cancel or run, got 'stop'"),
        (
            {"if_failed": "run"},
            "if_failed",
            "if_failed says what becomes of a job whose after has failed: it needs after",
        ),
        (
            {"after": [1], "job_key": "k"},
            "after",
            "after goes without job_key: an add changes the waiting job that has its key",
        ),
        (
            {"after": [1], "singleton": True, "rerun": True},
            "after",
            "after goes without rerun: the job that runs would run again without waiting",
        ),
    ],
)
def test_a_bad_option_is_refused_by_its_name(given: dict[str, Any], field: str, said: str) -> None:
    """With the code of SQL."""
    with pytest.raises(InvalidJob) as caught:
        JobSpec(task="t").with_options(**given)

    assert ("GWBAF", field, said) == (caught.value.code, caught.value.field, str(caught.value))


def test_a_spec_that_was_made_without_a_check_is_checked_by_the_add() -> None:
    """Its fields may have any value."""
    with pytest.raises(InvalidJob, match="after of a JobSpec must be a tuple of ids"):
        JobSpec(task="t", after=[1]).with_options()  # type: ignore[arg-type]
