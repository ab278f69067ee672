"""`asyncq jobs retry`, `cancel`, `complete`, `fail`, `reschedule` and `remove`: jobs can be changed."""

import json
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from asyncq import Client, JobNotFound
from tests.cli.test_add import Tomorrow
from tests.cli.test_jobs import Output, jobs, words

__all__ = ["words"]


@pytest.fixture
async def failed(client: Client) -> int:
    """A job that is discarded."""
    added = await client.add_job("send", {"to": "a"}, job_key="k")
    await client.admin.discard_jobs([added.id])
    return added.id


async def test_retry_prints_the_ids_of_the_retried_jobs(
    words: list[str], client: Client, failed: int, capsys: Output
) -> None:
    """They are due."""
    assert (0, f"{failed}\n", "") == await jobs(capsys, "retry", *words, str(failed))
    assert "available" == (await client.get_job(failed)).state


async def test_cancel_ends_jobs_that_wait(words: list[str], client: Client, failed: int, capsys: Output) -> None:
    """Discarded jobs are named and left alone."""
    added = await client.add_job("send")
    code, out, err = await jobs(capsys, "cancel", *words, str(failed), str(added.id))

    said = f"not changed, since they are discarded, or are not there: {failed}\n"
    assert (1, f"{added.id}\n", said) == (code, out, err)
    with pytest.raises(JobNotFound):
        await client.get_job(added.id)


async def test_complete_ends_jobs(words: list[str], client: Client, failed: int, capsys: Output) -> None:
    """As JSON, the jobs are shown as they were before."""
    code, out, _ = await jobs(capsys, "complete", *words, str(failed), "--json")

    assert (0, failed, "discarded", {"to": "a"}) == (
        code,
        json.loads(out)["id"],
        json.loads(out)["state"],
        json.loads(out)["payload"],
    )
    with pytest.raises(JobNotFound):
        await client.get_job(failed)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], "Manually marked as failed"),
        (["--message", "withdrawn"], "withdrawn"),
        (["--message", "of a byte \udcff"], "of a byte \\udcff"),
    ],
    ids=["default", "text", "bytes"],
)
async def test_discard_discards_jobs(
    words: list[str], client: Client, capsys: Output, given: list[str], expected: str
) -> None:
    """The jobs get the given error."""
    added = await client.add_job("send")

    assert (0, f"{added.id}\n", "") == await jobs(capsys, "discard", *words, str(added.id), *given)
    job = await client.get_job(added.id)
    assert ("discarded", expected) == (job.state, job.last_error)


async def test_reschedule_changes_the_given_fields(
    words: list[str], client: Client, failed: int, capsys: Output
) -> None:
    """Zero is a value; fields that are not given stay."""
    changes = ["--run-at", "2030-01-31T04:00:00Z", "--priority", "0", "--attempts", "0", "--max-attempts", "3"]

    code, _, _ = await jobs(capsys, "reschedule", *words, str(failed), *changes)

    job = await client.get_job(failed)
    assert (0, datetime(2030, 1, 31, 4, tzinfo=UTC), 0, 0, 3) == (
        code,
        job.run_at,
        job.priority,
        job.attempts,
        job.max_attempts,
    )


@pytest.mark.parametrize("change", ["--priority", "--attempts"])
async def test_reschedule_to_zero_is_a_change(
    words: list[str], client: Client, failed: int, capsys: Output, change: str
) -> None:
    """This holds even if nothing else is given."""
    assert (0, f"{failed}\n", "") == await jobs(capsys, "reschedule", *words, str(failed), change, "0")
    job = await client.get_job(failed)
    assert 0 == (job.priority if change == "--priority" else job.attempts)


@pytest.mark.parametrize(("when", "delay"), [(["--now"], timedelta(0)), (["--in", "2h"], timedelta(hours=2))])
async def test_reschedule_takes_a_delay(
    words: list[str],
    client: Client,
    capsys: Output,
    when: list[str],
    delay: timedelta,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The delay counts from the server's clock, not from that of this machine."""
    monkeypatch.setattr("asyncq.cli.jobs_change.datetime", Tomorrow, raising=False)
    added = await client.add_job("send", run_at=datetime(2030, 1, 31, tzinfo=UTC))
    before = await client.admin.now()

    await jobs(capsys, "reschedule", *words, str(added.id), *when)

    run_at = (await client.get_job(added.id)).run_at
    assert timedelta(0) <= run_at - before - delay < timedelta(minutes=1)


async def test_remove_takes_a_key(words: list[str], client: Client, failed: int, capsys: Output) -> None:
    """The second call finds no job with the key, and ends with exit code 1."""
    assert (0, f"{failed}\n", "") == await jobs(capsys, "rm", *words, "k")
    assert (1, "", "no job has the key 'k'\n") == await jobs(capsys, "rm", *words, "k")


@pytest.mark.leaves_something
async def test_remove_reports_that_a_job_continues_to_run(
    words: list[str], client: Client, db: asyncpg.Connection, schema: str, capsys: Output
) -> None:
    """Otherwise it would look like a success."""
    added = await client.add_job("send", job_key="k")
    await db.execute(f"update {schema}._jobs set locked_by = 9, locked_at = now(), lock_token = 1")

    code, _, err = await jobs(capsys, "rm", *words, "k")

    assert (0, f"job {added.id} runs on worker 9: it lost its key, and is not retried\n") == (code, err)


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (["retry"], "run, have never failed, or are not there"),
        (["complete"], "run, or are not there"),
        (["discard"], "run, or are not there"),
        (["reschedule", "--now"], "run, or are not there"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
async def test_jobs_that_were_not_changed_are_named(
    words: list[str], failed: int, capsys: Output, command: list[str], why: str
) -> None:
    """The others were; the exit code says that it is not all."""
    code, out, err = await jobs(capsys, *command[:1], *words, "900", str(failed), "800", *command[1:])

    assert (1, f"{failed}\n", f"not changed, since they {why}: 800, 900\n") == (code, out, err)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (["retry"], "asyncq: which jobs? Give their ids, or options that choose them"),
        (["retry", "1", "--task", "send"], "asyncq: which jobs? Give their ids, or options that choose them, not both"),
        (["retry", "1", "--yes"], "asyncq: --dry-run and --yes go with options that choose jobs, not with ids"),
        (["rm", "--ended", "--task", "send"], "asyncq: --ended goes with ids"),
        (["rm"], "asyncq: which jobs?"),
        (["retry", "x"], "asyncq jobs retry: argument ID: 'x' is not a whole number of at least 1"),
        (["reschedule", "1"], "asyncq: nothing to change: give --now, --run-at, --in, --priority, --attempts or"),
        (["reschedule", "1", "--now", "--in", "5m"], "asyncq jobs reschedule: argument --in: not allowed with"),
        (["reschedule", "1", "--max-attempts", "0"], "asyncq: max_attempts is 0, expected 1 to 32767"),
        (["rm", ""], "asyncq: job_key is empty, at least 1 character is needed"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
async def test_a_wrong_command_line_names_the_fault(
    words: list[str], capsys: Output, command: list[str], expected: str
) -> None:
    """The exit code is 2, and nothing is changed."""
    code, out, err = await jobs(capsys, *command[:1], *words, *command[1:])

    assert (2, "") == (code, out)
    assert expected in err


async def test_ended_jobs_are_redacted_and_removed_by_their_ids(
    words: list[str], client: Client, failed: int, capsys: Output
) -> None:
    """Those of which nothing is kept are named."""
    added = await client.add_job("send", {"to": "a"}, keep="1 hour")
    await client.admin.complete_jobs([added.id])
    before = await client.get_job(added.id)
    redacted = await jobs(capsys, "redact", *words, str(added.id), str(failed))
    after = await client.get_job(added.id)
    removed = await jobs(capsys, "rm", "--ended", *words, str(added.id))
    again = await jobs(capsys, "rm", "--ended", *words, str(added.id))

    said = "not changed, since nothing is kept of them: "
    assert (1, f"{added.id}\n", f"{said}{failed}\n") == redacted
    assert ('{"to":"a"}', "null") == (before.payload, after.payload)
    assert [(0, f"{added.id}\n", ""), (1, "", f"{said}{added.id}\n")] == [removed, again]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["rm", "k", "l"], "one KEY at a time"),
        (["rm", "--ended", "k"], "'k' is not a whole number of at least 1"),
        (["rm", "--ended", "7", "--json"], "only their ids are printed"),
    ],
)
async def test_words_that_do_not_go_together_are_refused(
    words: list[str], capsys: Output, command: list[str], said: str
) -> None:
    """Nothing was sent."""
    code, _, err = await jobs(capsys, command[0], *words, *command[1:])

    assert 2 == code
    assert said in err
