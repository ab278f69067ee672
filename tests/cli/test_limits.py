"""`asyncq limits`, `asyncq partitions` and `asyncq limit`."""

import json

import pytest

from asyncq import Client, Limit, Queue, task
from asyncq.testing import run_due
from tests.cli.test_jobs import Output, words
from tests.cli.test_pause import asyncq

__all__ = ["words"]


@task(concurrency=Limit(2, by="tenant", name="tenants"))
async def sync(tenant: str) -> None:
    """A task whose limit has a key."""


@pytest.fixture(autouse=True)
async def declared(dsn: str, schema: str) -> None:
    """A worker has declared a limit and a queue."""
    await run_due(dsn, [sync, Queue("reports", concurrency=4)], schema=schema)


async def test_limits_are_listed_with_what_was_declared_and_set(words: list[str], capsys: Output) -> None:
    """The first line has the headings. `limit` prints the line of the limit that it set."""
    code, out, err = await asyncq(
        capsys, "limit", "tenants", "--at-once", "5", "--rate", "100/1m", "--by", "ann", *words
    )
    _, listed, _ = await asyncq(capsys, "limits", *words)

    now, before = "5 at once of each key, 100 starts in 60 s of each key", "2 at once of each key"
    heading, queue, limit = (line.split("  ") for line in listed.splitlines())
    assert (0, "", [heading, limit]) == (code, err, [line.split("  ") for line in out.splitlines()][:2])
    assert ["limit", "kind", "now"] == [word.strip() for word in heading if word][:3]
    assert ["reports", "queue", "4 at once", "the same"] == [word.strip() for word in queue if word][:4]
    assert ["tenants", "limit", now, before, "ann"] == [word.strip() for word in limit if word][:5]


async def test_what_was_set_is_unset(words: list[str], capsys: Output, client: Client) -> None:
    """None is a value: no limit."""
    await asyncq(capsys, "limit", "tenants", "--at-once", "none", "--total", "7", *words)
    (_, during) = await client.admin.limits()
    code, _, _ = await asyncq(capsys, "limit", "tenants", "--unset", *words)
    (_, after) = await client.admin.limits()

    assert (None, 7, {"at_once": None, "total": 7}) == (during.values.at_once, during.values.total, during.overrides)
    assert (0, 2, {}) == (code, after.values.at_once, after.overrides)


@pytest.mark.parametrize("name", ["tenants", "reports"])
async def test_a_limit_that_no_worker_declares_any_more_is_removed(
    words: list[str], capsys: Output, client: Client, name: str
) -> None:
    """Its last line is printed, also that of a queue."""
    _, listed, _ = await asyncq(capsys, "limits", "--json", *words)
    code, out, err = await asyncq(capsys, "limit", name, "--remove", "--json", *words)

    assert (0, "") == (code, err)
    assert out in listed.splitlines(keepends=True)
    assert name not in [limit.name for limit in await client.admin.limits()]


async def test_keys_are_listed_with_their_own_values(words: list[str], capsys: Output, client: Client) -> None:
    """A key that has a value of its own is listed without a job too."""
    await client.add_job(sync.job(tenant="zeta"))
    code, _, _ = await asyncq(capsys, "limit", "tenants", "--key", "acme", "--at-once", "9", "--weight", "2", *words)
    _, table, _ = await asyncq(capsys, "partitions", "tenants", *words)
    _, out, _ = await asyncq(capsys, "partitions", "tenants", "--json", *words)

    assert 0 == code
    lines = [line.split() for line in table.splitlines()]
    assert ["key waiting running why next at", "zeta 1 0 of 2", "acme 0 0 of 9"] == [" ".join(line) for line in lines]
    assert [("zeta", 2), ("acme", 9)] == [(key["key"], key["may"]) for key in map(json.loads, out.splitlines())]


async def test_as_json_a_limit_is_an_object(words: list[str], capsys: Output) -> None:
    """Scripts read it, also that of a queue."""
    _, out, _ = await asyncq(capsys, "limits", "--json", *words)

    queue, limit = map(json.loads, out.splitlines())
    assert ("queue", "reports", 4) == (queue["kind"], queue["name"], queue["values"]["at_once"])
    assert (["sync"], ["tenant"], 0, 0) == (limit["tasks"], limit["by"], limit["running"], limit["full"])


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (
            ["tenants"],
            "set what? Give --at-once, --rate, --total, --total-rate or --weight; or --unset or --remove alone",
        ),
        (["tenants", "--unset", "--total", "3"], "or --unset or --remove alone"),
        (["tenants", "--unset", "--remove"], "or --unset or --remove alone"),
        (["tenants", "--remove", "--key", "a"], "--remove ends the limit of all keys: leave --key out"),
        (["nobody", "--remove"], "no worker has declared a limit nobody; there are reports, tenants"),
        (["tenants", "--weight", "3"], "--weight is that of a key: give --key too"),
        (["tenants", "--key", "a", "--total", "3"], "--total is that of all keys: leave --key out"),
        (["tenants", "--key", "a", "--at-once", "none"], "none is not one of them"),
        (["tenants", "--rate", "100"], "'100' is not a rate; write 100/1m for 100 starts in a minute"),
        (["tenants", "--rate", "100/3d"], "per of a Rate must lie between 0.1 seconds and a day"),
        (
            ["tenants", "--at-once", "0"],
            "got 0; to start no jobs, pause it instead",
        ),
        (["nobody", "--at-once", "1"], "no worker has declared a limit nobody; there are reports, tenants"),
    ],
)
async def test_a_wrong_command_sets_nothing(words: list[str], capsys: Output, command: list[str], said: str) -> None:
    """Exit code 2, as for all commands."""
    code, out, err = await asyncq(capsys, "limit", *command, *words)

    assert (2, "") == (code, out)
    assert said in err
