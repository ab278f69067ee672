"""`ctx.logger`: it keeps the fields of the caller, and never fails an attempt."""

import logging
from typing import Any

import pytest

from asyncq import Client, JobContext, task
from asyncq.domain.events import JobCompleted
from asyncq.domain.job import Claim
from asyncq.engine.base.records import JobLogger
from tests.engine.conftest import MakeWorker
from tests.support.seen import Seen

CLAIM = Claim(7, 1, "q", 1, 0, 25, 0, 0, 0, 0, 0, 0, None, None, "{}", None, None)
FIELDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "of the program": (
        {"tenant": "acme"},
        {"tenant": "acme", "job_id": 7, "task": "hello", "attempt": 1, "queue": "q", "worker_id": 3},
    ),
    "that take the place of ours": ({"attempt": "first"}, {"attempt": "first", "job_id": 7, "task": "hello"}),
    "that every record has": ({"name": "Bobby", "args": 3}, {"asyncq_name": "Bobby", "asyncq_args": 3, "job_id": 7}),
    "that formatters set": ({"message": "x", "asctime": "y"}, {"asyncq_message": "x", "asyncq_asctime": "y"}),
}


@pytest.mark.parametrize("name", FIELDS)
def test_the_fields_of_the_call_are_kept(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """Our fields are added. A reserved name, for which `logging` would raise, is replaced."""
    given, expected = FIELDS[name]
    JobLogger(CLAIM, "hello", 3).warning("said %s", "x", extra=given)
    (record,) = caplog.records

    assert ("said x", "asyncq.job") == (record.getMessage(), record.name)
    assert expected == {field: vars(record).get(field) for field in expected}


def test_the_place_of_a_record_is_that_of_the_call(caplog: pytest.LogCaptureFixture) -> None:
    """This holds for each method, and through an adapter of the program."""
    logger = JobLogger(CLAIM, "hello", 3)
    logger.warning("x")
    logger.log(logging.WARNING, "x")
    logging.LoggerAdapter(logger, {"tenant": "acme"}).warning("x")
    try:
        raise LookupError("x")
    except LookupError:
        logger.exception("x", stack_info=True)

    name = "test_the_place_of_a_record_is_that_of_the_call"
    assert [(name, "test_job_logger.py")] * 4 == [(record.funcName, record.filename) for record in caplog.records]
    assert [7] * 4 == [vars(record)["job_id"] for record in caplog.records]
    assert "acme" == vars(caplog.records[2])["tenant"]
    assert caplog.records[3].exc_info is not None
    assert LookupError is caplog.records[3].exc_info[0]
    assert caplog.records[3].stack_info is not None


async def test_a_record_factory_that_sets_our_fields_fails_no_attempt(
    client: Client,
    make_worker: MakeWorker,
    seen: Seen,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Programs set fields of their own for all records; `logging` refuses an `extra` of the same name."""
    make = logging.getLogRecordFactory()

    def factory(*args: Any, **kwargs: Any) -> logging.LogRecord:
        record = make(*args, **kwargs)
        vars(record).update(task="of the program", job_id="request 9", asyncq_event="mine")
        return record

    @task
    async def hello(ctx: JobContext) -> None:
        ctx.logger.info("in the handler")

    added = await client.add_job(hello)
    with caplog.at_level(logging.INFO):
        logging.setLogRecordFactory(factory)
        try:
            await make_worker(hello).run_once()
        finally:
            logging.setLogRecordFactory(make)
    (record,) = [record for record in caplog.records if record.name == "asyncq.job"]
    ours = [record for record in caplog.records if record.name == "asyncq"]

    assert [added.id] == seen.ids(JobCompleted)
    assert ("of the program", "hello", added.id) == tuple(
        vars(record)[field] for field in ("task", "asyncq_task", "asyncq_job_id")
    )
    assert "WorkerStarted" in {vars(record)["asyncq_asyncq_event"] for record in ours}


@pytest.mark.parametrize("level", [logging.DEBUG, logging.INFO])
def test_a_level_that_is_off_writes_nothing(level: int, caplog: pytest.LogCaptureFixture) -> None:
    """It costs nothing."""
    caplog.set_level(logging.WARNING, "asyncq.job")
    JobLogger(CLAIM, "hello", 3).log(level, "x")

    assert [] == caplog.records
