"""Serves an ASGI application by uvicorn in the test's own loop, on a free port."""

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import uvicorn
from starlette.types import ASGIApp

from tests.support.waiting import LIMIT_S


@asynccontextmanager
async def serving(app: ASGIApp) -> AsyncGenerator[str]:
    """Serve an application; yields its address, with a last slash."""
    with socket.create_server(("127.0.0.1", 0)) as place:
        server = uvicorn.Server(uvicorn.Config(app, lifespan="off", log_level="warning", timeout_graceful_shutdown=1))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.serve, [place])
            with anyio.fail_after(LIMIT_S):
                while not server.started:
                    await asyncio.sleep(0.005)
            try:
                yield f"http://127.0.0.1:{place.getsockname()[1]}/"
            finally:
                server.should_exit = True
