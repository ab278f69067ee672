"""`Dashboard`: the ASGI application, which opens itself at its first request."""

from types import TracebackType
from typing import Self

from starlette.applications import Starlette
from starlette.types import Receive, Scope, Send

from asyncq.client import Client
from asyncq.store.statements import DEFAULT_SCHEMA
from asyncq.web.access import Authorize
from asyncq.web.guard import Guard
from asyncq.web.live import Live
from asyncq.web.redaction import REDACTED, Redact, Redaction
from asyncq.web.routes import routes
from asyncq.web.site import Site


class Dashboard:
    """The dashboard as an ASGI application: mount it, as in `app.mount("/jobs", Dashboard(client, authorize=check))`.

    It opens its client at the first request, since a mounted application gets no lifespan; `async with dashboard`
    opens it before, and closes it.

    Args:
        client: A client: if it is not open, the first request opens it, and its owner closes it. Or the DSN of the
            database.
        authorize: Takes the ASGI scope of a request, and returns `"read"`, `"write"`, an `Access`, or None to refuse
            it; a function or a coroutine function. It has no default. An error refuses the request.
        schema: The schema's name, if a DSN is given; `asyncq` by default.
        redact: The names of members of payloads, results and meta whose values are not shown, at any depth; or a
            function that takes a decoded value, and returns what is shown. By default names such as `password`,
            `token` and `secret`.
        hide_payloads: Whether payloads, results and meta are not shown at all; False by default.
        read_only: Whether nobody may change anything; False by default. It is so on a standby, and for a role that
            may not change jobs.

    If a request is cancelled, what it was changing may be done.
    """

    def __init__(
        self,
        client: Client | str,
        *,
        authorize: Authorize,
        schema: str = DEFAULT_SCHEMA,
        redact: Redact = REDACTED,
        hide_payloads: bool = False,
        read_only: bool = False,
    ) -> None:
        self._own = Client(client, schema=schema, pool_size=4) if isinstance(client, str) else None
        used = client if isinstance(client, Client) else self._own
        assert used is not None
        self._site = Site(used, Redaction(redact, hide=hide_payloads), Live(), read_only=read_only)
        app = Starlette(routes=routes())
        app.state.site = self._site
        self._app = Guard(app, authorize)

    async def __aenter__(self) -> Self:
        await self._site.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End the streams, and close the client if it is the dashboard's own."""
        self.stop()
        if self._own is not None:
            await self._own.close()

    def stop(self) -> None:
        """End the streams of all browsers: the server is about to stop."""
        self._site.live.stop()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)
