"""The guard in front of the dashboard: who may see it, which requests may change something, and headers of answers."""

from collections.abc import MutableMapping
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from asyncq.web.access import Access, Authorize, access_of
from asyncq.web.answers import Refused, refusal

MAX_BODY = 1024 * 1024
OPEN_PATHS = ("/healthz",)
SECURITY = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}


class Guard:
    """Wraps the application: closed unless `authorize` opens it.

    A request that changes something needs the header `x-asyncq: 1`, which no form and no other site can send, a body
    of JSON of 1 MiB at most, and an origin that is the same.
    """

    def __init__(self, app: ASGIApp, authorize: Authorize) -> None:
        self._app = app
        self._authorize = authorize

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if path_of(scope) != "/" and scope["path"].endswith("/"):
            # Litestar ends each path below a mount with a slash.
            scope = {**scope, "path": scope["path"].rstrip("/")}
        sender = _Sender(send)
        try:
            if path_of(scope) not in OPEN_PATHS:
                access = await access_of(self._authorize, scope)
                if access is None:
                    raise Refused(401, "not allowed: the application that serves this page refused the request")
                scope["asyncq.access"] = access
            if scope["method"] not in ("GET", "HEAD"):
                check_write(Headers(scope=scope))
                receive = _limited(receive)
            await self._app(scope, receive, sender)
        except Refused as refused:
            if sender.has_begun:
                raise
            await refusal(refused)(scope, receive, sender)


def path_of(scope: MutableMapping[str, Any]) -> str:
    """The path of a request below the place where the dashboard is mounted."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    return path.removeprefix(root) if root and path.startswith(root + "/") else path


def access(scope: MutableMapping[str, Any]) -> Access:
    """The access of a request that the guard let through."""
    found: Access = scope["asyncq.access"]
    return found


def check_write(headers: Headers) -> None:
    """Refuse a request that another site may have caused, or whose body is no JSON or too long."""
    if headers.get("x-asyncq") != "1":
        raise Refused(403, "a request that changes something needs the header x-asyncq: 1")
    if headers.get("sec-fetch-site", "same-origin") != "same-origin":
        raise Refused(403, "a request that changes something must come from the dashboard itself")
    if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise Refused(415, "the body must be JSON: content-type: application/json")
    length = headers.get("content-length", "0")
    if length.isdigit() and int(length) > MAX_BODY:
        raise TOO_LONG


TOO_LONG = Refused(413, f"the body is longer than {MAX_BODY:,} bytes")


def _limited(receive: Receive) -> Receive:
    """Receive a body of 1 MiB at most: its announced length may be missing or wrong."""
    received = 0

    async def limited() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > MAX_BODY:
            raise TOO_LONG
        return message

    return limited


class _Sender:
    """Sends answers with the headers of security."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.has_begun = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.has_begun = True
            headers = MutableHeaders(scope=message)
            for name, value in SECURITY.items():
                headers.setdefault(name, value)
        await self._send(message)
