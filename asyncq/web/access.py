"""Decides what the sender of a request may do: the application's `authorize` says it, and errors are refusals."""

import inspect
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Literal

import msgspec

from asyncq.web.answers import Refused

logger = logging.getLogger("asyncq")

Action = Literal["add", "cancel", "change", "remove", "control", "cron", "unlock"]
ACTIONS: tuple[Action, ...] = ("add", "cancel", "change", "remove", "control", "cron", "unlock")


class Access(msgspec.Struct, frozen=True):
    """What the user of a request may do.

    Attributes:
        name: The user's name, for the audit log.
        can: The allowed actions; none by default: the user may only read. `add` adds jobs, `cancel` cancels them,
            `change` retries, completes, fails and reschedules them, `remove` removes them, `control` pauses and changes
            limits, `cron` changes recurring items, `unlock` takes jobs from workers that are gone.
    """

    name: str = ""
    can: frozenset[Action] = frozenset()


Decision = Access | Literal["read", "write"] | None
Authorize = Callable[[MutableMapping[str, Any]], Decision | Awaitable[Decision]]
"""Returns the access of a request from its ASGI scope; None refuses it. An error refuses it too."""


async def access_of(authorize: Authorize, scope: MutableMapping[str, Any]) -> Access | None:
    """The access of a request; None if it is refused. A `Refused` that `authorize` raises says more."""
    try:
        decision: Any = authorize(scope)
        if inspect.isawaitable(decision):
            decision = await decision
    except Refused:
        raise
    except Exception:
        logger.exception("authorize of the dashboard failed: the request is refused")
        return None
    if decision == "read":
        return Access()
    if decision == "write":
        return Access(can=frozenset(ACTIONS))
    if decision is None or isinstance(decision, Access):
        return decision
    logger.error("authorize of the dashboard must return None, 'read', 'write' or an Access: the request is refused")
    return None
