"""Whatever ends a claim counts that once, and whatever makes a job ready wakes its partition.

A law of the store finds a statement that does not. These tests find it where it is written.
"""

import re
from functools import cache

from tests.house.test_sql import CHECKOUT, CREATED, FILES, pieces

ENDS = re.compile(r"delete from asyncq\._(?:jobs|batches)\b|\block(?:ed_by|_token) = null|\bset unsettled = ")
READIES = re.compile(
    r"insert into asyncq\._jobs\b"
    r"|update asyncq\._jobs\b[^;]*?\bset\b[^;]*?"
    r"\b(?:run_at|attempts|max_attempts|partition|task_id|priority|locked_by) = "
)

# These end claims, or delete jobs, for callers that have locked the rows: function -> the callers that end claims.
# The other callers end jobs that wait.
FOR_CALLERS = {
    "_end_jobs": {"_release", "_complete_claim"},
    "_rerun_jobs": {"_release", "_complete_claim"},
}
END_WAITING_JOBS = {"_administer_jobs", "_expire_jobs", "_look", "_prune", "_remove_job", "_replace_jobs", "cleanup"}

# These delete rows or empty batches, and end no claim.
END_NONE = {
    "_split_batches",
    "_open_slot",
    "fill_slot.sql",
    "fill_slot_awaited.sql",
    "close_slot.sql",
    "fetch_jobs.sql",
    "fetch_partitions.sql",
}

# These write such a column, and make no job of a partition ready.
READY_NONE = {
    "_resolve_job_keys": "discards the job whose key is taken",
    "_remove_job": "discards a running job",
    "_split_batches": "the jobs run",
    "_note_block": "the job runs",
    "_rerun_jobs": "its callers wake the jobs",
    "fill_slot_awaited.sql": "a task with a limit has no slot",
    "claim_next.sql": "a job is claimed",
    "fetch_jobs.sql": "jobs are claimed",
    "fetch_partitions.sql": "jobs are claimed",
}


@cache
def texts() -> dict[str, str]:
    """Each function, and each file of a statement, of sql/ -> its text without comments."""
    found: dict[str, str] = {}
    for path in FILES:
        text = re.sub(r"--.*", "", (CHECKOUT / path).read_text())
        if path.parts[1] == "queries":
            found[path.name] = text
        elif path.parts[1] == "functions":
            found |= {created[1]: piece for piece in pieces(text) if (created := CREATED.search(piece))}
    return found


def calls(name: str, text: str) -> int:
    """How often a text calls a function; its own definition does not count."""
    return len(re.findall(rf"(?<!function )asyncq\.{name}\(", text))


def callers(name: str) -> set[str]:
    """The functions and statements that call a function."""
    return {caller for caller, text in texts().items() if calls(name, text)}


def test_whatever_ends_claims_inserts_their_wakeups_once() -> None:
    """Twice, and a limit would be exceeded; never, and its slot would be lost."""
    enders = {name for name, text in texts().items() if ENDS.search(text)} - END_NONE - set(FOR_CALLERS)
    enders |= {caller for names in FOR_CALLERS.values() for caller in names}
    counted = {
        name: calls("_wake_ended", text) + calls("_ended_wakeups", text)
        for name, text in texts().items()
        if name in enders
    }

    assert dict.fromkeys(enders, 1) == counted


def test_each_caller_of_a_function_that_ends_jobs_is_known() -> None:
    """A new one ends claims, and counts them, or ends jobs that wait."""
    assert [] == [
        (name, unknown) for name, those in FOR_CALLERS.items() if (unknown := callers(name) - those - END_WAITING_JOBS)
    ]


def test_whatever_makes_jobs_ready_wakes_their_partitions() -> None:
    """By one call, or by an insert of its own."""
    counted = {
        name: calls("_wake_partitions", text) + text.count("insert into asyncq._wakeups")
        for name, text in texts().items()
        if READIES.search(text) and name not in READY_NONE
    }

    assert dict.fromkeys(counted, 1) == counted
    assert {"_insert_jobs", "_update_jobs", "_administer_jobs", "_release"} <= set(counted)


def test_the_exceptions_are_still_there() -> None:
    """The name of one that is gone would cover another one."""
    named = END_NONE | END_WAITING_JOBS | set(READY_NONE) | set(FOR_CALLERS)

    assert set() == named - set(texts())
