"""`store.hosts`: a host that cannot be used costs a share of the time once, and the next attempt begins elsewhere."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import get_args
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from asyncpg import connect_utils

from asyncq import AccessDenied, Client, StoreUnavailable, task
from asyncq.domain.events import JobCompleted
from asyncq.server import Server, start
from asyncq.store import hosts as module
from asyncq.store.database import Database, HandlerPool, ReconnectingConnection, hang_up
from asyncq.store.failures import is_refusal
from asyncq.store.heartbeat_connection import HeartbeatConnection
from asyncq.store.hosts import Hosts, listed
from asyncq.store.listen import listening
from asyncq.store.services import read_service
from asyncq.testing import make_worker
from tests.support.bad_hosts import BadHost, Manner, bad_host, with_hosts
from tests.support.cli import asyncq
from tests.support.faults import link_to
from tests.support.seen import Seen

SHORT_S = 0.3
EACH_DRIVER_READS = (
    "postgresql://h1,h2/d",
    "postgresql://u:p%40@h1:1,h2:2/d",
    "postgresql://h1:1,h2/d",
    "postgresql://h1,[::1]:3/d",
    "postgresql://%2Frun%2Fa,h2/d",
    "postgresql://u@/d?host=h1,h2",
    "postgresql://u@/d?host=h1:1,h2:2",
    "postgresql://u@/d?host=h1,h2&port=1,2",
    "postgresql://u@/d?host=h1,h2&port=7",
    "postgresql://u@/d?host=/run/a,/run/b&port=1,2",
    "postgresql://h1,h2/d?host=h3&port=9",
    "postgresql:///d?service=pair",
    "postgresql:///d?service=ports",
    "postgresql:///d?service=ports&port=5",
    "postgresql:///d?service=ports&host=h8,h9",
    "postgresql://",
)
ENVIRONMENTS = ({}, {"PGPORT": "6"}, {"PGHOST": "e1,e2:4"}, {"PGHOST": "e1,e2", "PGPORT": "1,2"})
LEFT_TO_THE_DRIVER = (
    "postgresql://h1/d",
    "postgresql:///d",
    "postgresql://u@/d?host=h1,h2,h3&port=1,2",
    "postgresql://h1,,h2/d",
    "postgresql://h1:x,h2/d",
    "postgresql://[::1,h2/d",
)


@task
async def nothing() -> None:
    """The least job."""


@pytest.fixture
def seen() -> Seen:
    """Keeps the events of the test's workers."""
    return Seen()


@pytest.fixture
async def client(dsn: str, schema: str) -> AsyncIterator[Client]:
    """A client with one host."""
    async with Client(dsn, schema=schema) as opened:
        yield opened


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host has little time here."""
    monkeypatch.setattr(module, "HOST_S", SHORT_S)


@pytest.fixture
async def mute() -> AsyncIterator[BadHost]:
    """A host that accepts and never answers, as a frozen server does."""
    async with bad_host() as host:
        yield host


# How a list is read


@pytest.mark.parametrize("variables", ENVIRONMENTS, ids=["none", "port", "hosts", "hosts and ports"])
@pytest.mark.parametrize("dsn", EACH_DRIVER_READS)
def test_a_list_of_hosts_is_read_as_the_driver_reads_it(
    dsn: str, variables: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host that the driver does not read from the DSN would be another server."""
    path = tmp_path / "services"
    path.write_text("[pair]\nhost=s1,s2:3\n[ports]\nhost=s1,s2\nport=8,9\n")
    for name in ("PGHOST", "PGPORT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"PGSERVICEFILE": str(path), "PGUSER": "u", **variables}.items():
        monkeypatch.setenv(name, value)
    none = dict.fromkeys(
        (
            "host", "port", "user", "password", "passfile", "database", "ssl", "service", "servicefile", "direct_tls",
            "server_settings", "target_session_attrs", "krbsrvname", "gsslib",
        )
    )  # fmt: skip
    addresses, _ = connect_utils._parse_connect_dsn_and_args(dsn=dsn, **none)
    expected = [where if isinstance(where, str) else tuple(where) for where in addresses]
    found = [
        f"{host.name}/.s.PGSQL.{host.port}" if host.name.startswith("/") else (host.name, host.port)
        for host in listed(dsn, read_service(dsn))
    ]
    has_several = "PGHOST" in variables or dsn != "postgresql://"

    assert (expected if has_several else []) == found


@pytest.mark.parametrize("dsn", LEFT_TO_THE_DRIVER)
def test_one_host_and_invalid_lists_are_left_to_the_driver(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver finds local sockets, and refuses invalid lists with known messages."""
    for name in ("PGHOST", "PGPORT"):
        monkeypatch.delenv(name, raising=False)
    assert [] == listed(dsn, {})


def test_each_host_has_a_share_of_the_time_or_the_time_of_the_dsn(monkeypatch: pytest.MonkeyPatch) -> None:
    """connect_timeout counts for each host, as in libpq."""
    monkeypatch.setattr(module, "HOST_S", 3.0)
    shares = [
        Hosts("postgresql://a,b/d", {}, 10.0)._each_s,
        Hosts("postgresql://a,b,c,d,e/d", {}, 10.0)._each_s,
        Hosts("postgresql://a,b/d", {}, 7.0, 7.0)._each_s,
    ]

    assert [3.0, 2.0, 7.0] == shares


# A host that cannot be used


@pytest.mark.parametrize("manner", get_args(Manner))
async def test_an_unusable_host_is_skipped_and_not_tried_again(dsn: str, schema: str, manner: Manner) -> None:
    """After any failure the next host is tried, and then comes first."""
    async with bad_host(manner) as bad:
        database = Database(with_hosts(dsn, before=[bad.port]), schema)
        for _ in range(3):
            connection = await database.connect("test")
            await hang_up(connection)

        assert bad.accepted in (1, 2)  # a closed attempt with TLS is followed by one without


DOORS = ("client", "line", "heartbeat", "listen", "handlers")


@pytest.mark.parametrize("door", DOORS)
async def test_every_connection_of_ours_passes_a_mute_host(dsn: str, schema: str, mute: BadHost, door: str) -> None:
    """The driver's own limit covers the whole list: the first host would use it up."""
    where = with_hosts(dsn, before=[mute.port])
    async with asyncio.timeout(5):
        await _opened(door, where, schema)

    assert 1 == mute.accepted


async def _opened(door: str, where: str, schema: str) -> None:
    database = Database(where, schema)
    if door == "client":
        async with Client(where, schema=schema) as client:
            await client.add_job("t")
    elif door == "line":
        line = ReconnectingConnection(database, "test")
        await line.ready()
        await line.close()
    elif door == "heartbeat":
        lifeline = HeartbeatConnection(database, lambda _: None)
        await lifeline.open()
        await lifeline.close()
    elif door == "listen":
        nobody = {name: lambda *_: None for name in ("notified", "cancelled", "changed", "look", "handed")}
        async with listening(database, **nobody):
            pass
    else:
        pool = HandlerPool(database, 1, 5.0)
        async with pool.acquire():
            pass
        await pool.close()


async def test_a_worker_whose_first_host_is_mute_runs_jobs_and_listens(
    dsn: str, schema: str, client: Client, mute: BadHost, seen: Seen
) -> None:
    """All its connections work, and those of listen_dsn, and it hardly ever polls."""
    where = with_hosts(dsn, before=[mute.port])
    worker = make_worker(where, [nothing], schema=schema, observers=[seen], poll=60, listen_dsn=where)
    async with worker.start():
        await client.add_job(nothing)
        await seen.wait_for(JobCompleted)

    assert mute.accepted <= 4


async def test_the_command_line_passes_a_mute_host_of_pghost(dsn: str, schema: str, mute: BadHost) -> None:
    """The variables of libpq may hold lists too."""
    asked = parse_qs(urlsplit(with_hosts(dsn, before=[mute.port])).query)
    variables = {"PGHOST": asked["host"][0], "PGPORT": asked["port"][0], "PGTARGETSESSIONATTRS": "read-write"}
    login = {"PGUSER": urlsplit(dsn).username or "postgres", "PGDATABASE": urlsplit(dsn).path[1:]}
    done = await asyncq("jobs", "counts", "--schema", schema, DATABASE_URL="", **variables, **login)

    assert (0, "", True) == (done.returncode, done.stderr, mute.accepted >= 1)


async def test_after_a_timeout_at_a_mute_host_the_next_try_begins_with_another_one(
    dsn: str, schema: str, mute: BadHost
) -> None:
    """A beat in doubt has half a second. Otherwise each of them would go to the mute host."""
    database = Database(with_hosts(dsn, before=[mute.port]), schema)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(SHORT_S / 3):
            await database.connect("test")
    async with asyncio.timeout(5):
        await hang_up(await database.connect("test"))

    assert 1 == mute.accepted


async def test_a_host_that_turns_mute_is_skipped_too(dsn: str, schema: str) -> None:
    """The host that answered last comes first, until it stops answering."""
    async with link_to(dsn) as link:
        database = Database(with_hosts(dsn, before=[urlsplit(link.dsn).port or 0]), schema)
        await hang_up(await database.connect("test"))
        link.freeze("")
        async with asyncio.timeout(5):
            for _ in range(10):
                await hang_up(await database.connect("test"))


async def test_where_no_host_answers_each_is_named_with_its_reason(mute: BadHost) -> None:
    """A reader of this one line has to know which host failed."""
    with socket.create_server(("127.0.0.1", 0)) as placeholder:
        closed = placeholder.getsockname()[1]
    database = Database(f"postgresql://u:secret@127.0.0.1:{mute.port},127.0.0.1:{closed}/d", "s")
    with pytest.raises(StoreUnavailable, match=f"{mute.port}: no answer in time; 127.0.0.1:{closed}: .*111") as error:
        await database.connect("test")

    assert ("not_sent", False) == (error.value.outcome, "secret" in str(error.value))
    assert not is_refusal(error.value)


async def test_where_every_host_refuses_that_is_a_refusal() -> None:
    """A worker must not wait for the end of its lease to know that no server runs."""
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        ports = [each.getsockname()[1] for each in (one, other)]
    with pytest.raises(StoreUnavailable) as error:
        await Database(f"postgresql://u@127.0.0.1:{ports[0]},127.0.0.1:{ports[1]}/d", "s").connect("test")

    assert is_refusal(error.value)


# Logins


@pytest.fixture(scope="module")
def strict() -> Iterator[Server]:
    """A server that asks for the password `right` of the role `careful`."""
    with start() as server:
        (rules,) = server.folder.rglob("pg_hba.conf")
        rules.write_text("local all careful scram-sha-256\n" + rules.read_text())
        server.restart()
        yield server


@pytest.fixture
async def careful(strict: Server, tmp_path: Path) -> Callable[[str], Awaitable[str]]:
    """Makes a passfile for the server's host, and a wrong one for the first host; returns a DSN of both."""
    admin = await Database(strict.dsn, "s").connect("test")
    await admin.execute("drop role if exists careful; create role careful login password 'right'")
    await hang_up(admin)

    async def made(password: str) -> str:
        path = tmp_path / "passwords"
        path.write_text(f"127.0.0.1:*:*:*:wrong\nlocalhost:*:*:*:{password}\n")
        path.chmod(0o600)
        folder = quote(str(strict.folder), safe="")
        return f"postgresql://careful@/postgres?host=127.0.0.1,{folder}&port=1,5432&passfile={path}"

    return made


async def test_each_host_has_its_own_password_of_the_passfile(careful: Callable[[str], Awaitable[str]]) -> None:
    """The driver takes the first host's for all of them."""
    connection = await Database(await careful("right"), "s").connect("test")
    user = await connection.fetchval("select current_user")
    await hang_up(connection)

    assert "careful" == user


async def test_a_refused_login_is_no_reason_to_try_another_host(careful: Callable[[str], Awaitable[str]]) -> None:
    """libpq does the same: other hosts would refuse it too, and refusals may count against the role."""
    async with bad_host() as behind:
        dsn = (
            (await careful("false"))
            .replace("&passfile", f",{behind.port}&passfile")
            .replace("&port", ",127.0.0.1&port")
        )
        with pytest.raises(AccessDenied, match="password authentication failed"):
            await Database(dsn, "s").connect("test")

        assert 0 == behind.accepted
