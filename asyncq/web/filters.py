"""Reads filters of jobs from addresses and bodies."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from asyncq.domain.finding import JobFilter
from asyncq.web.answers import Refused
from asyncq.web.redaction import Redaction


class Given(msgspec.Struct, forbid_unknown_fields=True):
    """The members of a filter in an address or a body."""

    state: str | None = None
    task: str | None = None
    queue: str | None = None
    flag: str | None = None
    key: str | None = None
    has: Any = None
    error: str | None = None
    due_before: datetime | None = None
    added_after: datetime | None = None


def filter_of(given: Mapping[str, Any], redaction: Redaction) -> JobFilter:
    """Read a filter; refuses an unknown member, and a search for what is not shown.

    Args:
        given: Its members; texts of an address, or values of a body. A text in `has` is JSON.
        redaction: What the dashboard does not show.
    """
    members = {name: value for name, value in given.items() if value not in (None, "")}
    if isinstance(text := members.get("has"), str):
        try:
            members["has"] = msgspec.json.decode(text)
        except msgspec.DecodeError as error:
            raise Refused(422, f"has is no JSON: {error}") from error
    try:
        found = JobFilter(**msgspec.structs.asdict(msgspec.convert(members, Given, strict=False)))
    except msgspec.ValidationError as error:
        raise Refused(422, f"the filter is not valid: {error}") from error
    if found.has is not None:
        if redaction.hides:
            raise Refused(422, "has: this dashboard does not show payloads, and does not search in them")
        if names := redaction.names_in(found.has):
            raise Refused(422, f"has: the values of {', '.join(sorted(names))} are not shown, and not searched")
    found.text()
    return found
