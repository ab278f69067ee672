"""Flags are names on jobs. A worker can forbid them for a while, for example during an outage of a provider."""

from collections.abc import Awaitable, Callable

import pytest

from asyncq import Client, task
from asyncq.testing import assert_added, run_due


@task
async def send(to: str) -> None:
    """Send a message."""


async def test_a_worker_leaves_jobs_with_a_forbidden_flag_alone(dsn: str, schema: str, client: Client) -> None:
    """They keep their place, and no attempt is counted; jobs with other flags run."""
    text = await client.add_job(send, "ada", flags=["sms"])
    letter = await client.add_job(send, "bob", flags=["letter", "stamped"])
    plain = await client.add_job(send, "cleo")

    ran = await run_due(dsn, [send], schema=schema, concurrency=1, forbidden_flags=["sms"])

    assert ran.completed == [letter.id, plain.id]
    assert [job.id for job in await assert_added(client, send, flags=["sms"])] == [text.id]


def _forbid() -> list[str]:
    return ["sms"]


async def _ask_and_forbid() -> list[str]:
    return ["sms"]


@pytest.mark.parametrize("forbidden", [_forbid, _ask_and_forbid], ids=["function", "async function"])
async def test_forbidden_flags_can_be_computed_at_each_fetch(
    dsn: str, schema: str, client: Client, forbidden: Callable[[], list[str] | Awaitable[list[str]]]
) -> None:
    """A plain or async function returns them: for a rate limit that is used up, or a provider that is down."""
    text = await client.add_job(send, "ada", flags=["sms"])

    down = await run_due(dsn, [send], schema=schema, forbidden_flags=forbidden)
    well = await run_due(dsn, [send], schema=schema, forbidden_flags=lambda: None)

    assert (down.completed, well.completed) == ([], [text.id])


async def test_a_task_can_have_flags(dsn: str, schema: str, client: Client) -> None:
    """All its jobs have them."""

    @task(flags=["sms"])
    async def send_text() -> None:
        pass

    added = await client.add_job(send_text)
    ran = await run_due(dsn, [send_text], schema=schema, forbidden_flags=["sms"])

    assert ran.started == []
    assert (await client.get_job(added.id)).flags == ("sms",)
