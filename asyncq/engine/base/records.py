"""Writes log records with fields, to loggers that no import creates.

A field never makes a record fail. `logging` raises if a record already has an attribute of that name, such as one that
a program's record factory has set. Here such a field is written as `asyncq_<name>`.

`logging.config.dictConfig` disables existing loggers. So loggers are looked up when they are used: a program may import
asyncq first and set up logging afterwards.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any, cast

from asyncq.domain.sentence import plain

LOGGER = "asyncq"
JOB_LOGGER = "asyncq.job"
_RESERVED = ("message", "asctime")  # Set by formatters.


class JobLogger(logging.LoggerAdapter[logging.Logger]):
    """The logger of one run: its records have `job_id`, `task` and `attempt`, and the fields of the call.

    A field of the call replaces one of these with the same name.
    """

    def __init__(self, job_id: int, task: str, attempt: int) -> None:
        super().__init__(logging.getLogger(JOB_LOGGER), job_fields(job_id, task, attempt))

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """Add the fields of the run to those of the call."""
        return msg, {**kwargs, "extra": {**(self.extra or {}), **(kwargs.get("extra") or {})}}

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """Write a record, as `logging.Logger.log` does."""
        if self.isEnabledFor(level):
            _, given = self.process(msg, kwargs)
            # This frame is not the caller's.
            _write(self.logger, level, msg, args, **{**given, "stacklevel": given.get("stacklevel", 1) + 1})


def job_fields(job_id: int, task: str, attempt: int) -> dict[str, Any]:
    """The fields of a record about a run."""
    return {"job_id": job_id, "task": task, "attempt": attempt}


def write(
    name: str,
    level: int,
    template: str,
    arguments: Sequence[object],
    fields: Mapping[str, Any],
    error: BaseException | None = None,
) -> None:
    """Write a record of asyncq.

    Args:
        name: The name of the logger.
        level: The level of the record, as in `logging`.
        template: The sentence, with a `%s` or the like for each argument.
        arguments: The values of these; line breaks in texts are escaped, so that no text can look like a record.
        fields: The further fields of the record.
        error: The exception that the record reports.
    """
    logger = logging.getLogger(name)
    if logger.isEnabledFor(level):
        shown = tuple(plain(value) if isinstance(value, str) else value for value in arguments)
        _write(logger, level, template, shown, exc_info=error, extra=fields, stacklevel=2)


def _write(
    logger: logging.Logger,
    level: int,
    msg: object,
    args: tuple[object, ...],
    *,
    exc_info: Any = None,
    extra: Mapping[str, Any] | None = None,
    stack_info: bool = False,
    stacklevel: int = 1,
) -> None:
    """Do the same as `Logger._log`, with fields that cannot fail."""
    path, line, function, stack = logger.findCaller(stack_info, stacklevel + 1)
    record = logger.makeRecord(logger.name, level, path, line, msg, args, _exc_info(exc_info), function, None, stack)
    attributes = vars(record)
    for name, value in (extra or {}).items():
        is_taken = name in attributes or name in _RESERVED
        attributes[f"asyncq_{name}" if is_taken else name] = value
    logger.handle(record)


def _exc_info(given: Any) -> Any:
    """Resolve `exc_info=`: an exception, a triple, or True for the exception that is being handled."""
    if isinstance(given, BaseException):
        return type(given), given, given.__traceback__
    is_triple = isinstance(cast("object", given), tuple)
    return given if is_triple or not given else sys.exc_info()
