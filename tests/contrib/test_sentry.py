"""Sentry: the errors of runs, with the scope of their run, and without payloads."""

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import sentry_sdk
from sentry_sdk.integrations.dedupe import DedupeIntegration
from sentry_sdk.integrations.logging import LoggingIntegration

from asyncq import (
    Client,
    Collect,
    ConfigurationError,
    ConstantRetry,
    Discard,
    JobContext,
    RetryAfter,
    Snooze,
    Worker,
    task,
)
from asyncq.contrib.sentry import Reporting
from tests.log.test_log_tools import Recorder
from tests.support.process_tasks import fail as fail_in_a_process

SECRET = "secret-of-the-payload"


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    """Sentry as programs set it up; its events stay here."""
    made = Recorder()
    scope = sentry_sdk.get_global_scope()
    before, processors = scope.client, list(scope._event_processors)
    client = sentry_sdk.Client(
        dsn="http://key@localhost/1",
        transport=made,
        default_integrations=False,
        auto_enabling_integrations=False,
        integrations=[LoggingIntegration(level=logging.INFO, event_level=logging.ERROR), DedupeIntegration()],
    )
    scope.set_client(client)
    yield made
    client.close()
    scope.set_client(before)
    scope._event_processors[:] = processors


@task(max_attempts=2, retry=ConstantRetry(0))
async def fail(word: str) -> None:
    """Fail each time."""
    raise LookupError("no such word")


async def work(dsn: str, schema: str, reporting: Reporting, *tasks: Any, **options: Any) -> None:
    """Run what is due, with reports of errors."""
    await Worker(dsn, tasks, schema=schema, middleware=[reporting.runs], **options).run_once()


def variables(event: Any) -> list[Any]:
    """The local variables in an event."""
    frames = [frame for value in event["exception"]["values"] for frame in value["stacktrace"]["frames"]]
    return [frame["vars"] for frame in frames if "vars" in frame]


async def test_the_last_attempt_is_reported_once(dsn: str, schema: str, client: Client, recorder: Recorder) -> None:
    """With the task, the id and the attempt, and not again from the log."""
    added = await client.add_job(fail, SECRET, queue="mail")
    await work(dsn, schema, Reporting(), fail)
    (event,) = recorder.events
    known = event["contexts"]["asyncq"]

    assert {"asyncq.task": "fail", "asyncq.job_id": str(added.id), "asyncq.queue": "mail"} == event["tags"]
    assert ("fail", "error", 2, 2) == (event["transaction"], event["level"], known["attempt"], known["max_attempts"])
    assert ("LookupError", "no such word") == tuple(
        event["exception"]["values"][-1][name] for name in ("type", "value")
    )
    assert "fail" == event["exception"]["values"][-1]["stacktrace"]["frames"][-1]["function"]
    assert {"type": "asyncq", "handled": False} == event["exception"]["values"][-1]["mechanism"]


async def test_each_attempt_is_reported_on_request(dsn: str, schema: str, client: Client, recorder: Recorder) -> None:
    """Those that are retried are warnings."""
    await client.add_job(fail, SECRET)
    await work(dsn, schema, Reporting(attempts="each"), fail)

    assert [("warning", 1), ("error", 2)] == [
        (event["level"], event["contexts"]["asyncq"]["attempt"]) for event in recorder.events
    ]


@pytest.mark.parametrize("payloads", [False, True])
async def test_payloads_are_reported_on_request_only(
    dsn: str, schema: str, client: Client, recorder: Recorder, payloads: bool
) -> None:
    """Local variables of frames hold them too: in events of the log, and in those that a handler makes itself."""

    @task(max_attempts=1)
    async def say(word: str) -> None:
        try:
            raise ValueError("said")
        except ValueError:
            logging.getLogger("program").exception("failed")
        raise asyncio.CancelledError

    await client.add_jobs([fail.job(SECRET).with_options(max_attempts=1), say.job(SECRET)])
    await work(dsn, schema, Reporting(payloads=payloads), fail, say, concurrency=1)
    raised, said, logged = recorder.events

    assert ["LookupError", "ValueError", "CancelledError"] == [
        event["exception"]["values"][-1]["type"] for event in recorder.events
    ]
    assert [payloads] * 3 == [bool(variables(event)) for event in (raised, said, logged)]
    assert [payloads] * 3 == [SECRET in str(event) for event in (raised, said, logged)]


async def test_the_events_of_the_log_have_the_same_tags(
    dsn: str, schema: str, client: Client, recorder: Recorder
) -> None:
    """An error before the handler is called, or of a time limit, is known only there."""
    added = await client.add_job("fail", {"wrod": 1}, max_attempts=1)
    await work(dsn, schema, Reporting(), fail)
    (event,) = recorder.events

    assert {"asyncq.task": "fail", "asyncq.job_id": str(added.id)} == event["tags"]
    assert "ValidationError" == event["exception"]["values"][-1]["type"]


async def test_runs_do_not_share_a_scope(dsn: str, schema: str, client: Client, recorder: Recorder) -> None:
    """Tags of one handler are not those of another that runs at the same time."""
    both = asyncio.Barrier(2)

    @task
    async def say(ctx: JobContext, word: str) -> None:
        sentry_sdk.set_tag("word", word)
        await both.wait()
        sentry_sdk.capture_message(word)

    added = await client.add_jobs([say.job("one"), say.job("two")])
    await work(dsn, schema, Reporting(), say)
    found = sorted((event["message"], event["tags"]) for event in recorder.events)
    ids = [str(each.id) for each in added]

    assert [
        ("one", {"word": "one", "asyncq.task": "say", "asyncq.job_id": ids[0]}),
        ("two", {"word": "two", "asyncq.task": "say", "asyncq.job_id": ids[1]}),
    ] == found


async def test_a_verdict_is_reported_if_it_costs_an_attempt(
    dsn: str, schema: str, client: Client, recorder: Recorder
) -> None:
    """A snooze, and a service that refuses all, are no errors; a discard is the last attempt."""
    ends = {"snooze": Snooze(600), "busy": RetryAfter(600, "busy"), "discard": Discard("no use")}
    ends["refused"] = RetryAfter(600, "429", partition=True)

    @task
    async def end(how: str) -> None:
        raise ends[how]

    await client.add_jobs([end.job(how).with_options(queue=how) for how in ends])
    await work(dsn, schema, Reporting(attempts="each"), end)
    found = {event["tags"]["asyncq.queue"]: event["level"] for event in recorder.events}

    assert {"busy": "warning", "discard": "error"} == found


async def test_the_errors_of_collected_jobs_are_their_own(
    dsn: str, schema: str, client: Client, recorder: Recorder
) -> None:
    """Each has the id of its job; an error that the call raises is reported once. A discard is the last attempt."""

    @task(collect=Collect(max=10, within="1 h"), retry=ConstantRetry(600))
    async def send(names: list[str]) -> list[Any]:
        if "all" in names:
            raise LookupError("all")
        return [{"b": ValueError("b"), "c": Discard("c")}.get(name) for name in names]

    added = await client.add_jobs([send.job(name) for name in "abc"])
    reporting = Reporting(attempts="each")
    await work(dsn, schema, reporting, send)
    own = [(event["tags"]["asyncq.job_id"], event["level"]) for event in recorder.events]
    recorder.events.clear()
    others = await client.add_jobs([send.job("all"), send.job("all")])
    await work(dsn, schema, reporting, send)
    (event,) = recorder.events

    assert [(str(added[1].id), "warning"), (str(added[2].id), "error")] == own
    assert [each.id for each in others] == event["contexts"]["asyncq"]["job_ids"]
    assert "asyncq.job_id" not in event["tags"]


async def test_the_first_failed_item_is_reported(dsn: str, schema: str, client: Client, recorder: Recorder) -> None:
    """One event for the job, however many items failed."""

    @task(items=True, max_attempts=1)
    async def send(names: list[str]) -> list[Any]:
        return [ValueError(name) for name in names]

    await client.add_job(send, ["a", "b"])
    await work(dsn, schema, Reporting(), send)

    assert ["a"] == [event["exception"]["values"][-1]["value"] for event in recorder.events]


async def test_an_error_of_another_process_is_reported(
    dsn: str, schema: str, client: Client, recorder: Recorder
) -> None:
    """With its message."""
    await client.add_job(fail_in_a_process, "value", max_attempts=1)
    await work(dsn, schema, Reporting(), fail_in_a_process)

    (event,) = recorder.events

    assert event["exception"]["values"][-1]["value"].startswith("no such thing\n")


async def test_without_sentry_nothing_happens(dsn: str, schema: str, client: Client) -> None:
    """A program may set it up in production only."""
    scope = sentry_sdk.get_global_scope()
    processors = list(scope._event_processors)
    added = await client.add_job(fail, "x", max_attempts=1)
    await work(dsn, schema, Reporting(), fail)
    scope._event_processors[:] = processors

    assert "LookupError" in str((await client.get_job(added.id)).last_error)


def test_unknown_attempts_are_refused() -> None:
    """When they are given."""
    wrong: Any = "first"
    with pytest.raises(ConfigurationError, match="'last' or 'each', got 'first'"):
        Reporting(attempts=wrong)
