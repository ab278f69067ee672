"""Takes the records of loggers from a process of handlers to the loggers of its worker."""

import logging
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from asyncq.domain.outcome import text_of
from asyncq.domain.stored_text import escaped
from asyncq.engine.base.records import free_fields
from asyncq.engine.run.frames import Logged

_USUAL = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}
_formatter = logging.Formatter()


def levels() -> dict[str, int]:
    """The levels that were set, by the names of the loggers; that of the root is ""."""
    found = {"": logging.root.level}
    for name, logger in list(logging.Logger.manager.loggerDict.items()):
        if isinstance(logger, logging.Logger) and logger.level:
            found[name] = logger.level
    return found


def write(logged: Logged, fields: Mapping[str, Any]) -> None:
    """Pass a record of a process on to the logger of its name, with these fields."""
    logger = logging.getLogger(logged.name)
    if not logger.isEnabledFor(logged.level):
        return
    extra = free_fields({**logged.fields, **fields})
    record = logger.makeRecord(
        logged.name, logged.level, logged.path, logged.line, logged.message, (), None, logged.function, extra
    )
    record.created = logged.created
    logger.handle(record)


class ToWorker(logging.Handler):
    """Sends the records of a process to its worker."""

    def __init__(self, send: Callable[[Logged], None]) -> None:
        super().__init__()
        self._send = send

    def emit(self, record: logging.LogRecord) -> None:
        """Send a record. The traceback becomes part of its message, since formatters build it from an exception."""
        try:
            self._send(_logged(record))
        except Exception:  # noqa: BLE001 - as the handlers of `logging`
            self.handleError(record)


def use_levels(given: Mapping[str, int]) -> None:
    """Let the loggers of this process have the levels of the worker's."""
    for name, level in given.items():
        logging.getLogger(name or None).setLevel(level)


def _logged(record: logging.LogRecord) -> Logged:
    message = record.getMessage()
    if record.exc_info:
        message += f"\n{_formatter.formatException(record.exc_info)}"
    if record.stack_info:
        message += f"\n{record.stack_info}"
    fields = {escaped(str(name)): _sent(value) for name, value in vars(record).items() if name not in _USUAL}
    return Logged(
        record.name,
        record.levelno,
        escaped(message),
        record.pathname,
        record.lineno,
        record.funcName,
        record.created,
        fields,
    )


def _sent(value: Any) -> Any:
    """A field as JSON can hold it; as text if it cannot."""
    try:
        return msgspec.json.decode(msgspec.json.encode(value))
    except Exception:  # noqa: BLE001 - of the user's object
        return escaped(text_of(value))
