"""A DSN with several hosts: each host has its own time limit, and the host that answered last comes first.

The driver's time limit covers the whole list, so a host that accepts a connection and never answers would use it up at
each attempt. The driver itself opens a DSN with one host.
"""

import os
import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import asyncpg

from asyncq.store.failures import AllHostsFailed
from asyncq.store.services import asked_by

HOST_S = 3.0

_BRACKETS = re.compile(r"\[([^\]]+)\](?::([0-9]+))?")

# After these errors the next host is tried. A refused login ends the attempt, as in libpq.
_UNUSABLE = (
    OSError,
    asyncpg.CannotConnectNowError,
    asyncpg.ConnectionDoesNotExistError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.InternalClientError,  # also of a server of another kind than target_session_attrs asks for
    asyncpg.ProtocolError,
)


class Host(NamedTuple):
    """One host of a list: a name, an address, or the folder of a Unix socket, and its port."""

    name: str
    port: int


class Hosts:
    """Opens connections to the hosts of one DSN; `each_s` limits an attempt at one of several, 3 s by default."""

    def __init__(self, dsn: str, service: Mapping[str, str], timeout_s: float, each_s: float | None = None) -> None:
        self._dsn = dsn
        self._timeout_s = timeout_s
        self._listed = listed(dsn, service)
        self._order = list(self._listed)
        self._each_s = each_s or min(HOST_S, timeout_s / max(1, len(self._listed)))
        asked = asked_by(dsn).get("target_session_attrs") or service.get("target_session_attrs")
        self._wanted = asked or os.environ.get("PGTARGETSESSIONATTRS") or "any"

    async def connect(self, **options: Any) -> asyncpg.Connection:
        """Open a connection to the first host that can be used; AllHostsFailed if none of several can be used.

        An error of the driver if the only host cannot be used. If cancelled, no connection stays open, and the next
        attempt begins with another host.
        """
        if not self._listed:
            return await asyncpg.connect(self._dsn, timeout=self._timeout_s, **options)
        if self._wanted != "prefer-standby":
            return await self._first(self._wanted, options)
        try:
            return await self._first("standby", options)
        except AllHostsFailed:
            return await self._first("any", options)

    async def _first(self, wanted: str, options: dict[str, Any]) -> asyncpg.Connection:
        failed: list[tuple[str, Exception]] = []
        options = {**options, "timeout": self._each_s, "target_session_attrs": wanted}
        for host in list(self._order):
            self._order.remove(host)
            self._order.append(host)
            try:
                connection = await asyncpg.connect(self._dsn, host=host.name, port=host.port, **options)
            except _UNUSABLE as error:
                failed.append((f"{host.name}:{host.port}", error))
            else:
                is_standby = getattr(connection.get_settings(), "in_hot_standby", "off") == "on"
                self._answered(host, is_wanted=wanted != "any" or not is_standby)
                return connection
        raise AllHostsFailed(failed)

    def _answered(self, host: Host, *, is_wanted: bool) -> None:
        """Begin with this host the next time; with the DSN's first host if this one may be of the wrong kind."""
        if not is_wanted:
            self._order = list(self._listed)
            return
        self._order.remove(host)
        self._order.insert(0, host)


def listed(dsn: str, service: Mapping[str, str]) -> list[Host]:
    """Read the hosts of a DSN, its service or PGHOST in order; empty for fewer than two, or if the driver refuses."""
    found = named(dsn, service)
    return found if len(found) > 1 else []


def named(dsn: str, service: Mapping[str, str]) -> list[Host]:
    """Read these hosts, also if it is one; empty if none is named, or if the driver refuses."""
    try:
        asked = asked_by(dsn)
        place = urlsplit(dsn).netloc
        if hosts := place.partition("@")[2] if "@" in place else place:
            return [Host(unquote(host.name), host.port) for host in _split(hosts, None)]
        if "host" in asked:
            return _split(asked["host"], asked.get("port"))
        hosts = service.get("host") or os.environ.get("PGHOST") or ""
        return _split(hosts, asked.get("port") or service.get("port"))
    except ValueError:
        return []


def _split(hosts: str, ports: str | None) -> list[Host]:
    """Read a list of hosts; separate ports take precedence over those in the list."""
    names = hosts.split(",")
    given = [int(port) for port in (ports or os.environ.get("PGPORT") or "5432").split(",")]
    if len(given) == 1:
        given *= len(names)
    if not all(names):
        raise ValueError(hosts)
    return [_host(name, port, takes_its_own=not ports) for name, port in zip(names, given, strict=True)]


def _host(text: str, port: int, *, takes_its_own: bool) -> Host:
    if text.startswith("/"):
        return Host(text, port)
    if text.startswith("["):
        found = _BRACKETS.match(text)
        if found is None:
            raise ValueError(text)
        name, own = found[1], found[2]
    else:
        name, _, own = text.partition(":")
    return Host(name, int(unquote(own)) if own and takes_its_own else port)
