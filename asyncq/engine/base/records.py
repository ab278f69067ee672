"""Writes log records with fields, to loggers that no import creates.

A field never makes a record fail. `logging` raises if a record already has an attribute of that name, such as one that
a program's record factory has set. Here such a field is written as `asyncq_<name>`.

`logging.config.dictConfig` disables existing loggers. So loggers are looked up when they are used: a program may import
asyncq first and set up logging afterwards.
"""

import logging
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any

from asyncq.domain.job import Claim
from asyncq.domain.sentence import plain

LOGGER = "asyncq"
JOB_LOGGER = "asyncq.job"
_RESERVED = ("message", "asctime")  # Set by formatters.


class JobLogger(logging.LoggerAdapter[logging.Logger]):
    """The logger of one run: its records have the fields of `job_fields`, and those of the call.

    A field of the call replaces one of these with the same name.
    """

    def __init__(self, claim: Claim, task: str, worker_id: int) -> None:
        super().__init__(logging.getLogger(JOB_LOGGER), job_fields(claim, task, worker_id))

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        return msg, {**kwargs, "extra": free_fields({**(self.extra or {}), **(kwargs.get("extra") or {})})}


def job_fields(claim: Claim, task: str, worker_id: int) -> dict[str, Any]:
    """The fields of a record about a run."""
    return {
        "job_id": claim.id,
        "task": task,
        "attempt": claim.attempts + 1,
        "queue": claim.queue,
        "worker_id": worker_id,
    }


def write(
    name: str,
    level: int,
    template: str,
    arguments: Sequence[object],
    fields: Mapping[str, Any],
    error: BaseException | None = None,
    traceback: str | None = None,
) -> None:
    """Write a record of asyncq; line breaks in texts are escaped, so that no text can look like a record.

    `traceback` is that of the error as text, which the formatters of `logging` need not format again.
    """
    logger = logging.getLogger(name)
    if logger.isEnabledFor(level):
        shown = tuple(plain(value) if isinstance(value, str) else value for value in arguments)
        exc_info = None if error is None else (type(error), error, error.__traceback__)
        path, line, function, _ = logger.findCaller(stacklevel=2)
        record = logger.makeRecord(name, level, path, line, template, shown, exc_info, function, free_fields(fields))
        record.exc_text = traceback
        logger.handle(record)


def free_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Rename the fields whose names the attributes of a record have."""
    record = logging.getLogRecordFactory()(LOGGER, logging.INFO, "", 0, "", (), None)
    taken = {*vars(record), *_RESERVED}
    return {f"asyncq_{name}" if name in taken else name: value for name, value in fields.items()}
