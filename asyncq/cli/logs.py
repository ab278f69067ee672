"""The log of the command line: one handler on stderr, text or JSON lines."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

FORMATS = ("text", "json")

# What every record carries; all else came with `extra=`.
_USUAL = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}


def configure(level: str, shape: str) -> None:
    """Send the records of all loggers to stderr.

    Args:
        level: From which level on: debug, info, warning or error.
        shape: text or json.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if shape == "json" else TextFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


class TextFormatter(logging.Formatter):
    """`2026-01-31 09:00:00.123 INFO message`, in local time; a handler's message begins with its job."""

    default_msec_format = "%s.%03d"

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(origin)s%(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """One record as text."""
        record.origin = _origin(record)
        return super().format(record)


def _origin(record: logging.LogRecord) -> str:
    job_id, task = getattr(record, "job_id", None), getattr(record, "task", None)
    if record.name == "asyncq.job" and job_id is not None:
        return f"job {job_id} ({task}): "
    is_ours = record.name == "asyncq" or record.name.startswith("asyncq.")
    return "" if is_ours else f"{record.name}: "


class JsonFormatter(logging.Formatter):
    """One JSON object a line: `time` (UTC), `level`, `logger`, `message`, the fields of the record, `exception`."""

    def format(self, record: logging.LogRecord) -> str:
        """One record as JSON."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {name: value for name, value in vars(record).items() if name not in _USUAL and name not in line}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)
