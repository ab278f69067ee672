"""Watches jobs in SQL as a client does."""

import json
import secrets
from collections.abc import Sequence
from typing import Any

from asyncq.store.arrays import array_text
from tests.support.session import Session


async def watch(sql: Session, *ids: int, channel: str | None = None) -> dict[int, dict[str, Any]]:
    """Ask for the ends of jobs, and watch those that have not ended. Returns what is known, by their ids."""
    rows = await sql.run("watch", array_text(ids), channel)
    documents = [json.loads(row["document"]) for row in rows]
    return {document.pop("id"): document for document in documents}


class Told:
    """The notifications of ends that a session receives on a channel of its own."""

    def __init__(self, listener: Session) -> None:
        self._listener = listener
        self.channel = f"asyncq:{secrets.token_hex(16)}"
        self._heard: list[dict[str, Any]] = []

    async def open(self) -> None:
        """Begin to listen."""
        await self._listener.connection.add_listener(self.channel, self._hear)

    def _hear(self, _: object, __: int, ___: str, payload: str) -> None:
        self._heard.append(json.loads(payload))

    async def received(self) -> list[dict[str, Any]]:
        """All notifications so far: the server sends waiting ones before it answers."""
        await self._listener.rows("select")
        return self._heard


def ends(told: Sequence[dict[str, Any]]) -> list[tuple[int, str]]:
    """The ids and the states of notifications."""
    return [(document["id"], document["state"]) for document in told]
