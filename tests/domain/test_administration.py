"""Arguments of administrative calls are checked before the round trip, with the codes that SQL raises."""

from datetime import UTC, datetime
from typing import Any

import pytest

from asyncq.domain.administration import (
    check_cleanup,
    check_job_id,
    check_wanted,
    checked_changes,
    job_ids,
    kept_tasks,
    state_of,
    storable_error,
    worker_ids,
)
from asyncq.domain.errors import InvalidJob
from asyncq.domain.finding import check_found
from asyncq.domain.job import check_key
from asyncq.domain.states import JobState

NOTHING: dict[str, Any] = {"run_at": None, "priority": None, "attempts": None, "max_attempts": None}

BROKEN = [
    ("max_attempts", 0, "GWBMA"),
    ("max_attempts", 32768, "GWBMA"),
    ("max_attempts", "1", "GWBMA"),
    ("priority", 32768, "22003"),
    ("priority", -32769, "22003"),
    ("attempts", -1, "22003"),
    ("attempts", 32768, "22003"),
    ("attempts", True, "22003"),
    ("run_at", datetime(2030, 1, 1), "22007"),  # noqa: DTZ001
    ("run_at", "tomorrow", "22007"),
]


@pytest.mark.parametrize(("field", "value", "code"), BROKEN)
def test_a_change_out_of_range_is_refused(field: str, value: Any, code: str) -> None:
    """The error has the argument's name."""
    with pytest.raises(InvalidJob) as caught:
        checked_changes(**(NOTHING | {field: value}))

    assert (code, field) == (caught.value.code, caught.value.field)


@pytest.mark.parametrize(
    "given",
    [{}, {"priority": 0}, {"attempts": 0}, {"priority": -32768, "attempts": 32767, "max_attempts": 32767}],
)
def test_values_in_range_pass(given: dict[str, int]) -> None:
    """None means unchanged, and 0 is a value."""
    in_2030 = {"run_at": datetime(2030, 1, 1, tzinfo=UTC)}
    as_text = {"run_at": "2030-01-01T00:00:00+00:00"}

    assert [given, as_text] == [checked_changes(**(NOTHING | changed)) for changed in (given, in_2030)]


@pytest.mark.parametrize("wrong", [(0, 0, 1), (1001, 0, 1), (None, 0, 1), (True, 0, 1), (1, 2**63, 1), (1, 0, 0)])
def test_a_page_out_of_range_is_refused(wrong: tuple[Any, Any, Any]) -> None:
    """A page of a million jobs would fill the memory of the process."""
    check_found(1, None, 1)
    check_found(1000, 2**63 - 1, 1_000_000)
    with pytest.raises(InvalidJob):
        check_found(*wrong)


def test_a_state_that_is_unknown_is_refused() -> None:
    """The error lists the known states. A misspelt one must not look like an empty list."""
    assert JobState.DISCARDED is state_of("discarded")
    with pytest.raises(InvalidJob, match=r"state 'failed' is unknown, expected one of .*; did you mean 'discarded'"):
        state_of("failed")


def test_a_cleanup_that_is_unknown_is_refused() -> None:
    """The error lists the known ones."""
    check_cleanup(("DELETE_PERMAFAILED_JOBS", "GC_JOB_QUEUES", "GC_TASK_IDENTIFIERS"))
    with pytest.raises(
        InvalidJob, match="cleanup knows no task 'GC_QUEUES', expected one of DELETE_PERMAFAILED_JOBS, "
    ):
        check_cleanup(("GC_JOB_QUEUES", "GC_QUEUES"))


@pytest.mark.parametrize("key", ["", "k" * 513, None, 7, "\0"])
def test_an_invalid_key_is_refused(key: Any) -> None:
    """Null would be no key, and the function would find nothing."""
    check_key("k" * 512)
    with pytest.raises(InvalidJob) as caught:
        check_key(key)

    assert ("GWBJK", "job_key") == (caught.value.code, caught.value.field)


@pytest.mark.parametrize("given", [[1, 2], (1, 2), iter([1, 2]), range(1, 3)])
def test_ids_of_jobs_are_any_numbers(given: Any) -> None:
    """They may be in any collection."""
    assert [1, 2] == job_ids(given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("12", "got str"),
        (b"12", "got bytes"),
        (1, "got int"),
        (None, "got NoneType"),
        ([1, "2"], "got str in it"),
        ([True], "got bool in it"),
        ([None], "got NoneType in it"),
        ([2**63], "got one of more than 64 bits in it"),
        ([-(2**63) - 1], "got one of more than 64 bits in it"),
        ([10**30], "got one of more than 64 bits in it"),
    ],
)
def test_invalid_ids_of_jobs_are_refused(given: Any, said: str) -> None:
    """The error omits the value: a job among the ids would put its payload into the log."""
    with pytest.raises(InvalidJob) as caught:
        job_ids(given)

    assert f"ids must be a list of the ids of jobs (int), {said}" == str(caught.value)
    assert ("22023", "ids") == (caught.value.code, caught.value.field)


def test_ids_of_workers_are_numbers_or_texts() -> None:
    """The log shows them as text."""
    assert ["1", "17"] == worker_ids([1, "17"])


@pytest.mark.parametrize("given", ["17", 17, [1.5], [10**30]])
def test_invalid_ids_of_workers_are_refused(given: Any) -> None:
    """The text "17" is not the workers 1 and 7."""
    with pytest.raises(InvalidJob, match=r"ids must be a list of the ids of workers \(int or str\)"):
        worker_ids(given)


@pytest.mark.parametrize("text", ["\0", "\udcff"])
def test_the_id_of_a_worker_is_a_text_that_can_be_stored(text: str) -> None:
    """The driver's error would be obscure."""
    with pytest.raises(InvalidJob, match=r"ids .* holds a character that PostgreSQL cannot store"):
        worker_ids([text])


@pytest.mark.parametrize("given", ["1", True, None, 1.0, 2**63, 10**30])
def test_an_invalid_id_of_a_job_is_refused(given: Any) -> None:
    """The error has the argument's name."""
    with pytest.raises(InvalidJob) as caught:
        check_job_id(given)

    assert "job_id" == caught.value.field


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("send_email", "must be a list of the names of tasks (str), got str"),
        (b"send", "must be a list of the names of tasks (str), got bytes"),
        (7, "must be a list of the names of tasks (str), got int"),
        (["a", 7], "must be a str, got 7"),
        (["\0"], "'\\x00' holds a character that PostgreSQL cannot store as text"),
        (["\udcff"], "'\\udcff' holds a character that PostgreSQL cannot store as text"),
    ],
)
def test_invalid_names_of_tasks_to_keep_are_refused(given: Any, said: str) -> None:
    """The text "send_email" would mean the tasks s, e, n, d and so on, and the name itself would be removed."""
    with pytest.raises(InvalidJob) as caught:
        kept_tasks(given)

    assert f"task_identifiers_to_keep {said}" == str(caught.value)
    assert ("22023", "task_identifiers_to_keep") == (caught.value.code, caught.value.field)


def test_names_to_keep_are_any_texts() -> None:
    """Any collection is accepted, and SQL accepts any name."""
    assert (None, [], ["a\n"]) == (kept_tasks(None), kept_tasks(()), kept_tasks(iter(["a\n"])))


@pytest.mark.parametrize("field", ["task", "queue", "flag"])
@pytest.mark.parametrize("text", [7, b"t", "\0", "\udcff"])
def test_jobs_are_looked_for_by_texts_that_can_be_stored(field: str, text: Any) -> None:
    """No job has another one."""
    check_wanted(task="", queue=None, flag="f" * 1000)
    with pytest.raises(InvalidJob) as caught:
        check_wanted(**{field: text})

    assert ("22023", field) == (caught.value.code, caught.value.field)


def test_an_error_is_kept_as_far_as_it_can_be_stored() -> None:
    """The last error of a failed run is cleaned in the same way."""
    assert (None, "", "a\\x00b\\udcff") == (storable_error(None), storable_error(""), storable_error("a\0b\udcff"))
    with pytest.raises(InvalidJob, match="error must be a str, got 7"):
        storable_error(7)
