"""Reads every form of a DSN: the result is a URI for asyncpg, and the options that asyncpg does not read.

Parameters of asyncpg and settings of the server are passed on. asyncpg would also send the other parameters of libpq to
the server, as settings. So asyncq uses such a parameter itself, ignores it with a warning if it makes no difference, or
refuses it by name.
"""

import re
import warnings
from collections.abc import Mapping
from urllib.parse import quote, unquote, unquote_plus

import msgspec

from asyncq.domain.errors import ConfigurationError
from asyncq.domain.stored_text import is_storable
from asyncq.store.services import read_service

_SCHEME = re.compile(r"postgres(?:ql)?(?:\+[a-z0-9_]+)?(?=:)", re.IGNORECASE)
_KEYWORDS = re.compile(r"\s*[A-Za-z_]+\s*=")
_KEYWORD = re.compile(
    r"\s*([A-Za-z_]+)\s*=\s*(?:'((?:[^'\\]|\\.)*)'|((?:[^\s'\\]|\\.)(?:[^\s\\]|\\.)*)?)(?:\s+|$)", re.DOTALL
)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_STATEMENT_CACHE_SIZE = re.compile(r"(?:^|\s)statement_cache_size\s*=\s*'?[0-9]*'?(?=\s|$)")
_WHOLE = re.compile(r"-?[0-9]{1,6}", re.ASCII)

# The parameters that asyncpg reads in a service; it ignores all others there.
_WORDS_OF_ASYNCPG = """
    database dbname gsslib host krbsrvname passfile password port service ssl_max_protocol_version
    ssl_min_protocol_version sslcert sslcrl sslkey sslmode sslnegotiation sslpassword sslrootcert target_session_attrs
    user
"""
_OF_ASYNCPG = frozenset(_WORDS_OF_ASYNCPG.split())

_SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")

# Parameters of libpq that are ignored, with the values that make no difference to asyncq; None for all values.
_IGNORED: dict[str, tuple[str, ...] | None] = {
    "channel_binding": ("disable", "prefer"),
    "client_encoding": None,  # asyncpg always speaks UTF-8
    "fallback_application_name": None,
    "gssdelegation": ("0",),
    "gssencmode": ("disable", "prefer"),
    "keepalives": None,
    "keepalives_count": None,
    "keepalives_idle": None,
    "keepalives_interval": None,
    "load_balance_hosts": None,
    "max_protocol_version": None,  # asyncpg speaks 3.0, the oldest one
    "min_protocol_version": ("3.0",),
    "replication": ("0", "false", "no", "off"),
    "sslcertmode": ("allow",),
    "sslcompression": None,
    "sslsni": ("1",),
    "tcp_user_timeout": None,
}

# Parameters, or other values of those above, that demand more than asyncpg can do; each with advice.
_TLS = "sslmode=verify-full and sslrootcert authenticate the server; take the parameter out if that is enough"
_REFUSED = {
    "channel_binding": _TLS,
    "gssdelegation": "take it out",
    "gssencmode": "encrypt by TLS, with sslmode=require",
    "hostaddr": "beside host it cannot be used: write the address as host",
    "min_protocol_version": "asyncpg speaks 3.0: take it out",
    "oauth_client_id": "log in by password or certificate",
    "oauth_client_secret": "log in by password or certificate",
    "oauth_issuer": "log in by password or certificate",
    "oauth_scope": "log in by password or certificate",
    "prepared_statement_cache_size": "if the DSN leads to a pooler, write statement_cache_size=0; else take it out",
    "replication": "a queue needs an ordinary connection: take it out",
    "require_auth": _TLS,
    "requirepeer": "take it out, or protect the socket's folder",
    "scram_client_key": "give the password",
    "scram_server_key": "give the password",
    "servicefile": "let the variable PGSERVICEFILE name the file",
    "ssl": "write sslmode=require, or another of " + ", ".join(_SSL_MODES),
    "sslcertmode": "asyncpg sends the certificate that sslcert names: take it out",
    "sslcrldir": "give one file, sslcrl",
    "sslkeylogfile": "take it out",
    "sslsni": "take it out",
}


class Dsn(msgspec.Struct, frozen=True):
    """A DSN that was read.

    Attributes:
        uri: A URI for asyncpg, without the parameters below.
        statement_cache_size: 0 if the DSN leads to a pooler by transaction; None if the DSN does not set it.
        connect_timeout_s: How long an attempt to connect may take; None if the DSN does not set it.
        ignored: The names of the parameters that have no effect.
        service: The service that the DSN names, as its file has it.
    """

    uri: str
    statement_cache_size: int | None = None
    connect_timeout_s: float | None = None
    ignored: tuple[str, ...] = ()
    service: Mapping[str, str] = {}


def read_dsn(dsn: str) -> Dsn:
    """Read a URI of libpq, asyncpg or SQLAlchemy, or libpq's `host=... dbname=...`; ConfigurationError if it is bad.

    The parameters of its service that asyncpg ignores are added; parameters of the DSN take precedence.
    """
    if not is_storable(unquote(dsn, errors="surrogateescape")):
        raise ConfigurationError("the DSN cannot be used: it holds U+0000, or a character that UTF-8 cannot encode")
    if scheme := _SCHEME.match(dsn):
        before, _, asked = dsn.partition("?")
        before = "postgresql" + before[scheme.end() :]
        words = [word.partition("=") for word in asked.split("&")] if asked else []
    elif _KEYWORDS.match(dsn):
        before, words = "postgresql://", [(name, "=", quote(value, safe="")) for name, value in _keywords(dsn)]
    else:
        return Dsn(dsn)  # The driver refuses it with its own message.
    service = read_service("postgresql://?" + "&".join(map("".join, words)))
    given = {name for name, _, _ in words}
    for name, value in service.items():
        if name == "hostaddr" and "host" in service:
            raise ConfigurationError(_refusal(name))
        if value and name not in given | _OF_ASYNCPG:
            words.append((name, "=", quote(value, safe="")))
    return _Reading(before, words).done(service)


def for_libpq(dsn: str) -> str:
    """Rewrite a DSN of any form for libpq, which knows neither SQLAlchemy's words nor those of asyncpg."""
    scheme = _SCHEME.match(dsn)
    if scheme is None:
        return _STATEMENT_CACHE_SIZE.sub(" ", dsn)
    before, _, asked = dsn.partition("?")
    kept: list[str] = []
    for name, _, raw in (word.partition("=") for word in asked.split("&") if word):
        value = unquote_plus(raw)
        if name != "statement_cache_size":
            word = "sslmode" if name == "ssl" and value in _SSL_MODES else name
            # libpq takes neither `+` for a space nor a further `=`.
            kept.append(f"{word}={quote(value, safe='')}")
    return "postgresql" + before[scheme.end() :] + ("?" + "&".join(kept) if kept else "")


def warn_of_ignored(dsn: Dsn, stacklevel: int = 2) -> None:
    """Warn once of the parameters that have no effect."""
    if dsn.ignored:
        names = ", ".join(dsn.ignored)
        warnings.warn(f"the DSN names parameters of libpq that have no effect here: {names}", stacklevel=stacklevel + 1)


class _Reading:
    """The parameters of one DSN, sorted by how they are used."""

    def __init__(self, before: str, words: list[tuple[str, str, str]]) -> None:
        self._before = before
        self._words = words
        self._kept: list[str] = []
        self._ignored: list[str] = []
        self._statement_cache_size: int | None = None
        self._connect_timeout_s: float | None = None

    def done(self, service: Mapping[str, str]) -> Dsn:
        place = self._before.partition("://")[2].partition("/")[0]
        has_host = bool(place.rpartition("@")[2]) or any(name == "host" for name, _, _ in self._words)
        for name, mark, raw in self._words:
            if name == "hostaddr" and not has_host:
                self._kept.append(f"host={quote(bracketed(unquote_plus(raw)), safe='')}")
            elif not self._takes(name, unquote_plus(raw)):
                self._kept.append(name + mark + raw)
        asked = "&".join(self._kept)
        return Dsn(
            self._before + ("?" + asked if asked else ""),
            self._statement_cache_size,
            self._connect_timeout_s,
            tuple(dict.fromkeys(self._ignored)),
            service,
        )

    def _takes(self, name: str, value: str) -> bool:
        """Return whether a parameter is used or ignored here; otherwise the driver gets it."""
        if name == "statement_cache_size":
            if not (value.isascii() and value.isdecimal()):
                raise ConfigurationError(f"statement_cache_size in the DSN is a whole number, got {value!r}")
            self._statement_cache_size = int(value)
        elif name == "connect_timeout":
            if not _WHOLE.fullmatch(value):
                raise ConfigurationError(f"connect_timeout in the DSN is a whole number of seconds, got {value!r}")
            # 0 means no limit in libpq; here the default applies.
            self._connect_timeout_s = float(value) if int(value) > 0 else None
        elif name == "ssl" and value in _SSL_MODES:
            self._kept.append(f"sslmode={value}")  # SQLAlchemy's word for it
        elif name in _IGNORED and ((harmless := _IGNORED[name]) is None or value in harmless):
            self._ignored.append(name)
        elif name in _REFUSED:
            raise ConfigurationError(_refusal(name))
        elif name == "sslrootcert" and value == "system":
            raise ConfigurationError(
                "sslrootcert in the DSN names a file of certificates; asyncpg does not know sslrootcert=system"
            )
        else:
            return False
        return True


def _refusal(name: str) -> str:
    return f"the DSN or its service asks for {name}, which asyncpg cannot do as asked: {_REFUSED[name]}"


def bracketed(hosts: str) -> str:
    """Put brackets around IPv6 addresses, of one host or several with commas between them, as a URI needs them."""
    return ",".join(f"[{host}]" if host.count(":") > 1 and host[0] != "[" else host for host in hosts.split(","))


def _keywords(dsn: str) -> list[tuple[str, str]]:
    """Read the parameters of `host=... dbname=...`; leaves out empty ones, which mean the default."""
    found: list[tuple[str, str]] = []
    at = 0
    while at < len(dsn):
        read = _KEYWORD.match(dsn, at)
        if read is None:
            raise ConfigurationError(
                "the DSN cannot be read; expected host=... dbname=... user=... password=..., "
                "a value with spaces as 'one two', and \\' and \\\\ for ' and \\ in it"
            )
        value = _ESCAPED.sub(r"\1", read[2] if read[2] is not None else read[3] or "")
        if value:
            found.append((read[1], bracketed(value) if read[1] == "host" else value))
        at = read.end()
    return found
