"""Listens as a worker does."""

from tests.support.session import Session


class Ear:
    """The notifications that a session receives on the channel of a schema."""

    def __init__(self, listener: Session) -> None:
        self._listener = listener
        self._heard: list[tuple[str, str]] = []

    async def open(self) -> None:
        """Begin to listen, as the worker on call: adds tell nobody else."""
        await self._listener.value("select pg_advisory_lock(asyncq._lock_space(), 0)")
        await self.listen()

    async def listen(self) -> None:
        """Begin to listen, and nothing else."""
        await self._listener.connection.add_listener(f"{self._listener.schema}:jobs", self._hear)

    def _hear(self, _connection: object, _pid: int, channel: str, payload: str) -> None:
        self._heard.append((channel, payload))

    async def heard(self) -> list[tuple[str, str]]:
        """All that came so far: the server sends what it has before it answers."""
        await self._listener.rows("select")
        return self._heard

    async def forget(self) -> None:
        """Count from now on."""
        await self.heard()
        self._heard.clear()
