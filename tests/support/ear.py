"""Listens as a worker does."""

from tests.support.session import Session


class Ear:
    """The notifications that a session receives on the channel of a schema."""

    def __init__(self, listener: Session) -> None:
        self._listener = listener
        self._heard: list[tuple[str, str]] = []

    async def open(self) -> None:
        """Begin to listen as the on-call worker, the only one that adds notify."""
        await self._listener.value("select pg_advisory_lock(asyncq._lock_space(), 0)")
        await self.listen()

    async def listen(self) -> None:
        """Begin to listen, and nothing else."""
        await self._listener.connection.add_listener(f"{self._listener.schema}:jobs", self._hear)

    def _hear(self, _connection: object, _pid: int, channel: str, payload: str) -> None:
        self._heard.append((channel, payload))

    async def received(self) -> list[tuple[str, str]]:
        """All notifications so far: the server sends waiting ones before it answers."""
        await self._listener.rows("select")
        return self._heard

    async def forget(self) -> None:
        """Count from now on."""
        await self.received()
        self._heard.clear()
