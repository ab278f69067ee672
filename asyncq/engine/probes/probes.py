"""The thread that answers probes and scrapes, and notifies systemd: it lives while the event loop may be blocked.

It is not the thread of the heartbeat, which keeps the lease: no request delays a beat.
"""

import logging
import selectors
import socket
import threading
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import anyio
import anyio.to_thread

from asyncq.domain.events import Event, ProbesStarted
from asyncq.domain.http_address import HttpAddress
from asyncq.engine.base.records import LOGGER, write
from asyncq.engine.probes.counters import Counters
from asyncq.engine.probes.pulse import TICK_S, Pulse
from asyncq.engine.probes.server import Answer, HttpServer, text_answer
from asyncq.engine.probes.systemd import Notifier
from asyncq.engine.probes.vitals import Vitals, ill, unready

NO_METRICS = "metrics need the package prometheus_client: pip install 'asyncq[metrics]'"
SIGNS_A_WATCHDOG = 4  # how many signs of life fit into the time within which systemd wants one


class Probes:
    """The probes of one worker, made in its event loop: AsyncqError if the address cannot be used."""

    def __init__(
        self, http: HttpAddress | None, notifier: Notifier | None, counters: Counters, unhealthy_after_s: float
    ) -> None:
        self._counters = counters
        self._unhealthy_after_s = unhealthy_after_s
        self._vitals: Vitals | None = None
        self._pulse = Pulse()
        self._notifier = notifier
        self._tick_s = TICK_S
        if notifier is not None and notifier.watchdog_s is not None:
            self._tick_s = min(TICK_S, notifier.watchdog_s / SIGNS_A_WATCHDOG)
        routes = {"/healthz": self._health, "/readyz": self._readiness, "/metrics": self._metrics()}
        self.server = None if http is None else HttpServer(http, routes)
        self._waking, self._woken = socket.socketpair()
        self._is_ending = False
        self._thread = threading.Thread(target=self._run, name="asyncq probes", daemon=True)

    def follow(self, vitals: Vitals) -> None:
        """Report this state from now on."""
        self._vitals = vitals
        self._counters.follow(vitals.lease)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """End the thread, the server and its connections; blocks for a moment."""
        self._is_ending = True
        self._waking.send(b"\0")
        self._thread.join()
        self._waking.close()
        self._woken.close()

    def _run(self) -> None:
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(self._woken, selectors.EVENT_READ)
                if self.server is not None:
                    selector.register(self.server, selectors.EVENT_READ, self.server)
                self._serve(selector)
        finally:
            if self.server is not None:
                self.server.close()
            if self._notifier is not None:
                self._notifier.end()

    def _serve(self, selector: selectors.BaseSelector) -> None:
        tick_at = time.monotonic()
        while not self._is_ending:
            if time.monotonic() >= tick_at:
                tick_at = time.monotonic() + self._tick_s
                self._tick()
            for key, _ in selector.select(max(tick_at - time.monotonic(), 0.0)):
                if isinstance(key.data, HttpServer):
                    key.data.handle_request()

    def _tick(self) -> None:
        self._pulse.look()
        if self._notifier is not None:
            try:
                self._notifier.tick(self._vitals, self._pulse.silent_s)
            except Exception as error:  # noqa: BLE001 - the probes must go on
                write(LOGGER, logging.ERROR, "systemd was not notified: %s", (repr(error),), {}, error)

    def _health(self, _: str) -> Answer:
        fault = ill(self._vitals, self._pulse.silent_s, self._unhealthy_after_s)
        return text_answer(200, "ok") if fault is None else text_answer(503, fault)

    def _readiness(self, _: str) -> Answer:
        fault = unready(self._vitals)
        return text_answer(200, "ok") if fault is None else text_answer(503, fault)

    def _metrics(self) -> Callable[[str], Answer]:
        try:
            from asyncq.engine.probes.exposition import Exposition, WorkerCollector
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != "prometheus_client":
                raise
            return lambda _: text_answer(501, NO_METRICS)
        return Exposition(WorkerCollector(self._counters, lambda: self._vitals)).answer


@asynccontextmanager
async def probing(probes: Probes, emit: Callable[[Event], None]) -> AsyncGenerator[None]:
    """Answer probes until the block ends."""
    probes.start()
    try:
        if probes.server is not None:
            emit(ProbesStarted(address=f"http://{probes.server.address}"))
        yield
    finally:
        with anyio.CancelScope(shield=True):
            # A thread of its own: those of the event loop may all be taken by handlers.
            await anyio.to_thread.run_sync(probes.close, limiter=anyio.CapacityLimiter(1))
