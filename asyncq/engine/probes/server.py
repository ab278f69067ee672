"""A small HTTP server for probes and scrapes: GET only, one request on a connection, few connections at once."""

import logging
import os
import socket
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer
from typing import Any, NamedTuple

from asyncq.domain.errors import AsyncqError
from asyncq.domain.http_address import HttpAddress
from asyncq.engine.base.records import LOGGER, write

MOST_OPEN = 32
READ_S = 5.0  # how long a client may take to send a line of its request, or to take the answer
END_S = 2.0
FULL_PAUSE_S = 0.1  # before the next accept, while the process has no file descriptor left
TEXT = "text/plain; charset=utf-8"


class Answer(NamedTuple):
    """The answer to a request."""

    status: int
    body: bytes
    kind: str = TEXT


Route = Callable[[str], Answer]  # called with the header Accept, in the thread of the connection


def text_answer(status: int, text: str) -> Answer:
    """An answer of one line."""
    return Answer(status, f"{text}\n".encode())


class HttpServer(TCPServer):
    """Listens from the start, and answers each connection in a thread; AsyncqError if the address cannot be used.

    `handle_request` accepts one connection that waits. A new connection above `MOST_OPEN` ends the oldest one, so that
    clients that send nothing keep no probe out.
    """

    request_queue_size = 128
    allow_reuse_address = os.name == "posix"
    timeout = 0

    def __init__(self, address: HttpAddress, routes: Mapping[str, Route]) -> None:
        self.routes = routes
        self._lock = threading.Lock()
        self._open: dict[socket.socket, threading.Thread] = {}
        self._given_up: set[socket.socket] = set()
        if ":" in address.host:
            self.address_family = socket.AF_INET6
        try:
            super().__init__((address.host, address.port), _Handler)
        except OSError as error:
            raise AsyncqError(f"http: {address} cannot be used: {error.strerror or error}") from error
        _listening.add(self)

    @property
    def address(self) -> HttpAddress:
        host, port = self.server_address[:2]
        return HttpAddress(str(host), int(port))

    def get_request(self) -> tuple[socket.socket, Any]:
        try:
            return super().get_request()
        except OSError:
            time.sleep(FULL_PAUSE_S)
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        thread = threading.Thread(
            target=self._serve, args=(request, client_address), name="asyncq probe connection", daemon=True
        )
        with self._lock:
            is_full = len(self._open) >= 2 * MOST_OPEN
            if not is_full:
                if len(self._open) >= MOST_OPEN:
                    self._end_oldest()
                self._open[request] = thread
        if is_full:
            self.shutdown_request(request)
            return
        try:
            thread.start()
        except RuntimeError:  # The machine has no thread left.
            self._forget(request)

    def _serve(self, request: socket.socket, client_address: Any) -> None:
        try:
            self.finish_request(request, client_address)
        except OSError:
            pass  # The client has gone, or was too slow.
        except Exception as error:  # noqa: BLE001 - the next request may be answered
            write(LOGGER, logging.ERROR, "a request to the probes failed: %s", (repr(error),), {}, error)
        finally:
            self._forget(request)

    def _end_oldest(self) -> None:
        for request in self._open:
            if request not in self._given_up:
                self._given_up.add(request)
                _shut(request)
                return

    def _forget(self, request: socket.socket) -> None:
        with self._lock:
            self._open.pop(request, None)
            self._given_up.discard(request)
            self.shutdown_request(request)

    def close(self) -> None:
        """Listen no more, end all connections, and wait a moment for their threads."""
        self.server_close()
        with self._lock:
            threads = list(self._open.values())
            for request in self._open:
                _shut(request)
        until = time.monotonic() + END_S
        for thread in threads:
            thread.join(max(until - time.monotonic(), 0.0))


class _Handler(BaseHTTPRequestHandler):
    timeout = READ_S
    server: HttpServer  # pyright: ignore[reportIncompatibleVariableOverride] - the only server that uses it
    server_version, sys_version = "asyncq", ""

    def do_GET(self) -> None:
        route = self.server.routes.get(self.path.partition("?")[0])
        accept = self.headers.get("accept", "")
        self._send(text_answer(404, "there is no such page") if route is None else route(accept))

    def _refuse(self) -> None:
        self._send(text_answer(405, "only GET is possible"), allow="GET")

    do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = _refuse  # noqa: N815

    def _send(self, answer: Answer, **headers: str) -> None:
        self.send_response(answer.status)
        sent = {
            "content-type": answer.kind,
            "content-length": str(len(answer.body)),
            "cache-control": "no-store",
            "x-content-type-options": "nosniff",
            **headers,
        }
        for name, value in sent.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer.body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name in http.server
        """Log nothing: probes come every few seconds."""


def _shut(request: socket.socket) -> None:
    try:
        request.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # The client was first.


# A child that a handler forks must not keep the port: its worker may end, and another one start.
_listening: weakref.WeakSet[HttpServer] = weakref.WeakSet()


def _close_in_child() -> None:
    for server in list(_listening):
        server.socket.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)
