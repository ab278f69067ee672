"""Recurring items as JSON and as a table."""

from collections.abc import Sequence
from datetime import datetime, tzinfo
from typing import Any

import msgspec

from asyncq.cli.job_texts import aligned
from asyncq.domain.cron.status import CronStatus
from asyncq.domain.sentence import printable


def document(status: CronStatus) -> str:
    """All fields of an item as JSON: the payload as it was written, the fill in seconds."""
    fields: dict[str, Any] = msgspec.structs.asdict(status)
    fields["payload"] = None if status.payload is None else msgspec.Raw(status.payload.encode())
    fields["fill"] = status.fill.total_seconds()
    return msgspec.json.encode(fields).decode()


def table(items: Sequence[CronStatus]) -> list[str]:
    """A line of headings, and one line for each item; times in UTC."""
    rows = [("item", "source", "task", "expression", "tz", "last run", "next run", "")]
    rows += [
        (
            printable(status.identifier),
            status.source,
            printable(status.task or ""),
            printable(status.expression or ("" if status.task is None else "a function")),
            printable(status.tz or ""),
            _short(status.last_run),
            _short(status.next_run),
            printable(_trouble(status)),
        )
        for status in items
    ]
    return aligned(rows)


def written(at: datetime, zone: tzinfo) -> str:
    """A minute in a zone, with its offset."""
    return at.astimezone(zone).isoformat(" ", "minutes")


def _short(at: datetime | None) -> str:
    return "" if at is None else f"{at:%Y-%m-%d %H:%M}"


def _trouble(status: CronStatus) -> str:
    """Why an item adds no jobs; empty if it adds them."""
    if status.paused_at is not None:
        return f"paused since {_short(status.paused_at)}"
    if status.problem is not None:
        return status.problem
    return "" if status.workers else "no worker"
