"""The log in the tools that programs use: Sentry, structlog, python-json-logger."""

import io
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sentry_sdk
import structlog
from pythonjsonlogger.json import JsonFormatter
from sentry_sdk.envelope import Envelope
from sentry_sdk.integrations.logging import LoggingIntegration
from sentry_sdk.transport import Transport

from asyncq import Client, JobContext, RetryAfter, Worker, task


@task(max_attempts=1)
async def divide(number: int) -> float:
    """Fail, at the same line for each job."""
    return 1 / (number - number)


@task(max_attempts=1)
async def look_up(name: str) -> str:
    """Fail in another way."""
    return {"a": "b"}[name]


@task
async def wait() -> None:
    """Fail, and be retried."""
    raise RetryAfter(600, "busy")


@task
async def greet(ctx: JobContext) -> None:
    """Log."""
    ctx.logger.warning("hello %s", "Bobby", extra={"tenant": "acme"})


class Recorder(Transport):
    """A transport that keeps its events instead of sending them."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[Any] = []

    def capture_envelope(self, envelope: Envelope) -> None:
        """Keep the event of an envelope."""
        if (event := envelope.get_event()) is not None:
            self.events.append(event)


@contextmanager
def sentry(level: int) -> Iterator[Recorder]:
    """Sentry as programs set it up, with records of this level or above as events."""
    recorder = Recorder()
    scope = sentry_sdk.get_global_scope()
    before = scope.client
    client = sentry_sdk.Client(
        dsn="http://key@localhost/1",
        transport=recorder,
        default_integrations=False,
        auto_enabling_integrations=False,
        integrations=[LoggingIntegration(level=logging.INFO, event_level=level)],
    )
    scope.set_client(client)
    try:
        yield recorder
    finally:
        client.close()
        scope.set_client(before)


@contextmanager
def formatted(formatter: logging.Formatter) -> Iterator[io.StringIO]:
    """Format all our records, a line each."""
    stream, logger = io.StringIO(), logging.getLogger("asyncq")
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield stream
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


async def run(dsn: str, schema: str, client: Client) -> None:
    """Run jobs of each kind."""
    await client.add_jobs([divide.job(1), divide.job(2), look_up.job("x"), wait.job(), greet.job()])
    await Worker(dsn, [divide, look_up, wait, greet], schema=schema).run_once()


def group_of(event: Any) -> tuple[str, str, str]:
    """The values by which Sentry groups an event: the exception and its place, otherwise the template."""
    exception = event["exception"]["values"][-1]
    return event["logentry"]["message"], exception["type"], exception["stacktrace"]["frames"][-1]["function"]


async def test_sentry_groups_failures_by_their_exceptions(dsn: str, schema: str, client: Client) -> None:
    """Two failures of one task are one issue; those of two tasks are two."""
    with sentry(logging.ERROR) as recorder:
        await run(dsn, schema, client)
    said = "job %s (%s, attempt %s of %s) was discarded: %s"
    groups = sorted(group_of(event) for event in recorder.events)

    assert [
        (said, "KeyError", "look_up"),
        (said, "ZeroDivisionError", "divide"),
        (said, "ZeroDivisionError", "divide"),
    ] == groups
    assert {"divide", "look_up"} == {event["extra"]["task"] for event in recorder.events}
    assert {"JobDiscarded"} == {event["extra"]["asyncq_event"] for event in recorder.events}


async def test_sentry_sees_the_exceptions_of_retries(dsn: str, schema: str, client: Client) -> None:
    """A program may want warnings as issues too."""
    with sentry(logging.WARNING) as recorder:
        await run(dsn, schema, client)
    (retried,) = [event for event in recorder.events if event["extra"].get("asyncq_event") == "JobRetried"]

    said = "job %s (%s, attempt %s of %s) failed, next try in %.1f s: %s"
    assert (said, "RetryAfter", "wait") == group_of(retried)


async def test_structlog_keeps_the_message(dsn: str, schema: str, client: Client) -> None:
    """structlog calls it `event`."""
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[
            structlog.stdlib.add_log_level,
            structlog.stdlib.add_logger_name,
            structlog.stdlib.ExtraAdder(),
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.format_exc_info,
        ],
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, structlog.processors.JSONRenderer()],
    )
    with formatted(formatter) as stream:
        await run(dsn, schema, client)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    (greeted,) = [line for line in lines if line["logger"] == "asyncq.job"]
    failed = [line for line in lines if line.get("asyncq_event") == "JobDiscarded"]

    assert ("hello Bobby", "acme", "greet") == (greeted["event"], greeted["tenant"], greeted["task"])
    assert [True] * 3 == [line["event"].startswith(f"job {line['job_id']} ({line['task']}, ") for line in failed]
    assert [True] * 3 == ["Traceback" in line["exception"] for line in failed]


async def test_python_json_logger_keeps_the_fields(dsn: str, schema: str, client: Client) -> None:
    """Each field is a member of the object."""
    with formatted(JsonFormatter("%(levelname)s %(name)s %(message)s")) as stream:
        await run(dsn, schema, client)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    (greeted,) = [line for line in lines if line["name"] == "asyncq.job"]
    failed = [line for line in lines if line.get("asyncq_event") == "JobDiscarded"]

    assert ("hello Bobby", "acme", "greet", 1) == tuple(
        greeted[field] for field in ("message", "tenant", "task", "attempt")
    )
    assert {"divide", "look_up"} == {line["task"] for line in failed}
    assert all("Traceback" in line["exc_info"] for line in failed)
