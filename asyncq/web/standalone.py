"""Serves the dashboard by itself, with uvicorn, behind a token."""

import signal
import socket
from collections.abc import Callable
from types import FrameType

import uvicorn

from asyncq.client import Client
from asyncq.domain.errors import ConfigurationError
from asyncq.web.dashboard import Dashboard
from asyncq.web.token import TokenDoor

GRACE_S = 2


class _Server(uvicorn.Server):
    """Ends its streams at a signal, since they would last until its grace is over.

    It does not raise the signal again afterwards, as uvicorn does, because the command ends then anyway.
    """

    def __init__(self, config: uvicorn.Config, dashboard: Dashboard) -> None:
        super().__init__(config)
        self._dashboard = dashboard

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - a handler of signals
        self._dashboard.stop()
        self.force_exit = self.force_exit or (self.should_exit and sig == signal.SIGINT)
        self.should_exit = True


async def serve(
    dsn: str,
    *,
    schema: str,
    host: str,
    port: int,
    token: str,
    read_only: bool,
    hide_payloads: bool,
    ready: Callable[[str], None],
) -> None:
    """Serve until a signal; `ready` gets the address, with the token in it, once the database was reached."""
    door = TokenDoor(token, "read" if read_only else "write")
    async with (
        Client(dsn, schema=schema, pool_size=4) as client,
        Dashboard(client, authorize=door.authorize, read_only=read_only, hide_payloads=hide_payloads) as dashboard,
    ):
        config = uvicorn.Config(
            door.around(dashboard),
            lifespan="off",
            log_level="warning",
            server_header=False,
            timeout_graceful_shutdown=GRACE_S,
        )
        with _listening(host, port) as place:
            name = f"[{host}]" if ":" in host else host
            ready(f"http://{name}:{place.getsockname()[1]}/?token={token}")
            await _Server(config, dashboard).serve([place])


def _listening(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, reuse_port=False
        )
    except OSError as error:
        raise ConfigurationError(f"the dashboard cannot listen on {host}:{port}: {error.strerror}") from error
