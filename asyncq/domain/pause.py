"""Pauses: the paused object, since when, by whom and why; and the notification to the workers."""

from datetime import datetime
from typing import Any, Literal

import msgspec

from asyncq.domain.errors import InvalidJob
from asyncq.domain.job import MAX_NAME, check_is_text, check_storable
from asyncq.domain.sentence import printable

MAX_REASON = 500
CODE = "22023"  # that of the SQL functions

What = Literal["everything", "task", "queue", "limit", "key"]


class Pause(msgspec.Struct, frozen=True):
    """Something that is paused: no job of it starts until it is resumed.

    Attributes:
        what: `everything`, `task`, `queue`, `limit`, or `key`: one key of a limit.
        name: The name of the task, the queue or the limit; None for everything.
        key: The key; None unless `what` is `key`.
        paused_at: Since when.
        paused_by: By whom: a name that was given, or the role of the session.
        reason: Why; None if no reason was given.
    """

    what: What
    name: str | None
    key: str | None
    paused_at: datetime
    paused_by: str
    reason: str | None

    def __str__(self) -> str:
        """What is paused, as a phrase."""
        return phrase(self.what, self.name, self.key)


class PauseMessage(msgspec.Struct, frozen=True):
    """The notification of a pause or its end. Any role can send one."""

    act: Literal["paused", "resumed"]
    what: What
    name: str | None
    key: str | None
    by: str
    reason: str | None


_read = msgspec.json.Decoder(PauseMessage).decode


def read_message(text: str) -> PauseMessage | None:
    """The message that a notification holds; None if it holds another one."""
    try:
        return _read(text)
    except msgspec.DecodeError:
        return None


def phrase(what: str, name: str | None, key: str | None) -> str:
    """What is paused, as a phrase: `the key 'acme' of the limit 'tenants'`."""
    if what == "everything":
        return what
    if what == "key":
        return f"the key '{printable(key or '')}' of the limit '{printable(name or '')}'"
    return f"the {what} '{printable(name or '')}'"


def check_pause(
    *, task: Any, queue: Any, limit: Any, key: Any, reason: Any, by: Any
) -> tuple[str | None, str | None, str | None, str | None, str | None, str | None]:
    """Check the arguments of a pause, as the SQL function does, and return them; raises InvalidJob."""
    given = {"task": task, "queue": queue, "limit": limit, "by": by, "key": key, "reason": reason}
    for field, value in given.items():
        if value is None:
            continue
        check_is_text(field, value, CODE)
        check_storable(field, value, CODE)
        most = MAX_REASON if field == "reason" else MAX_NAME
        if field != "key" and not 1 <= len(value) <= most:
            said = f"{field} has {len(value)} characters, expected 1 to {most}"
            raise InvalidJob(said, code=CODE, field=field, limit=most, length=len(value))
    if sum(value is not None for value in (task, queue, limit)) > 1:
        said = "a task, a queue and a limit cannot be paused or resumed in one call: name one of them"
        raise InvalidJob(said, code=CODE, field="task")
    if key is not None and limit is None:
        raise InvalidJob("a key is one of a limit: give limit= too", code=CODE, field="key")
    return task, queue, limit, key, reason, by
