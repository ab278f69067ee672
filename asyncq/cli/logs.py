"""The log of the command line: one handler on the standard error, text or JSON lines."""

import copy
import json
import logging
import math
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, cast

from asyncq.domain.outcome import text_of
from asyncq.domain.sentence import plain

FORMATS = ("text", "json")
LOGGER = "asyncq.cli"
DEEPEST = 20  # Deeper values are written as text.

# Attributes of every record; all others come from `extra=`.
_USUAL = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}


def configure(level: str, shape: str) -> None:
    """Send the records of all loggers to the standard error, as text or JSON."""
    logging.basicConfig(level=level.upper(), handlers=[_handler(shape)], force=True)


def restore(level: str, shape: str) -> None:
    """Enable asyncq's loggers again after tasks were imported: `dictConfig` in such a module disables them.

    Handlers that the module has added to the root logger stay. Without any handler asyncq adds its own.
    """
    ours = logging.getLogger("asyncq")
    for name, logger in logging.Logger.manager.loggerDict.items():
        if isinstance(logger, logging.Logger) and (name == "asyncq" or name.startswith("asyncq.")):
            logger.disabled = False
    if not ours.hasHandlers():
        ours.addHandler(_handler(shape))
        ours.setLevel(level.upper())


def write_error(error: Exception, *, with_traceback: bool) -> None:
    """Write the error that ends a command as a JSON line, without loggers, because tasks may have disabled them."""
    exc_info = (type(error), error, error.__traceback__) if with_traceback else None
    _handler("json").handle(logging.LogRecord(LOGGER, logging.ERROR, __file__, 0, "%s", (error,), exc_info))


def _handler(shape: str) -> logging.Handler:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if shape == "json" else TextFormatter())
    return handler


class TextFormatter(logging.Formatter):
    """`2026-01-31 09:00:00.123 INFO message`, in local time; a message of a handler begins with its job.

    Only errors show their traceback, because the line about a retry contains the error.
    """

    default_msec_format = "%s.%03d"

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(origin)s%(message)s")

    def format(self, record: logging.LogRecord) -> str:
        record = copy.copy(record)
        record.origin = _origin(record)
        record.exc_text = None  # A cache of another formatter.
        if record.levelno < logging.ERROR and hasattr(record, "asyncq_event"):
            record.exc_info = None
        return super().format(record)

    def formatException(self, ei: Any) -> str:  # noqa: N802 - its name in logging
        """Format a traceback so that its lines cannot be mistaken for other records."""
        return "    " + plain(super().formatException(ei))


def _origin(record: logging.LogRecord) -> str:
    job_id, task = getattr(record, "job_id", None), getattr(record, "task", None)
    if record.name == "asyncq.job" and job_id is not None:
        return f"job {job_id} ({task}): "
    is_ours = record.name == "asyncq" or record.name.startswith("asyncq.")
    return "" if is_ours else f"{record.name}: "


class JsonFormatter(logging.Formatter):
    """One JSON object a line: `time` (UTC), `level`, `logger`, `message`, `exception`, `stack`, the record's fields.

    While a span of OpenTelemetry is active, it has `trace_id` and `span_id`. A field with one of the first names is
    written as `extra_<name>`. The line is always valid JSON in ASCII: numbers that JSON lacks, and keys and values of
    other types, are written as text.
    """

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            line["stack"] = self.formatStack(record.stack_info)
        fields = {name: value for name, value in vars(record).items() if name not in _USUAL}
        taken = {*line, "exception", "stack"}
        line |= _active_span()
        line |= {f"extra_{name}" if name in taken else name: value for name, value in fields.items()}
        return "{" + ", ".join(f"{json.dumps(str(name))}: {_encoded(value)}" for name, value in line.items()) + "}"


def _active_span() -> dict[str, object]:
    """The ids of the active span, if the program has imported OpenTelemetry."""
    trace = sys.modules.get("opentelemetry.trace")
    try:
        context = None if trace is None else trace.get_current_span().get_span_context()
    except Exception:  # noqa: BLE001 - another thread may be importing it, and a span may be the user's own
        return {}
    if context is None or not context.is_valid:
        return {}
    return {"trace_id": f"{context.trace_id:032x}", "span_id": f"{context.span_id:016x}"}


def _message(record: logging.LogRecord) -> str:
    """The message; if its arguments do not fit the template, both of them."""
    try:
        return record.getMessage()
    except Exception:  # noqa: BLE001 - of the __str__ of an argument
        return f"{text_of(record.msg)} {text_of(record.args)}"


def _encoded(value: object) -> str:
    try:
        return json.dumps(_plain(value, 0), allow_nan=False)
    except Exception:  # noqa: BLE001 - of an object of the user's, or an integer of more digits than Python writes
        return json.dumps(text_of(value))


def _plain(value: Any, depth: int) -> Any:
    """Convert a value to one that JSON supports."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case Mapping() if depth < DEEPEST:
            members = cast("Mapping[Any, Any]", value)
            return {text_of(name): _plain(member, depth + 1) for name, member in members.items()}
        case list() | tuple() | set() | frozenset() if depth < DEEPEST:
            return [_plain(item, depth + 1) for item in cast("list[Any]", value)]
        case _:
            return text_of(value)
