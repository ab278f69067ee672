"""`store.dsn`: each form of a DSN leads to the same server, and no parameter is dropped without a message."""

import warnings
from urllib.parse import parse_qsl, urlsplit

import pytest

from asyncq import Client, ConfigurationError
from asyncq.store.database import Database, hang_up
from asyncq.store.dsn import Dsn, read_dsn

FORMS = {
    "postgresql://u@h/d": "postgresql://u@h/d",
    "postgres://u@h/d": "postgresql://u@h/d",
    "postgresql+asyncpg://u@h/d?ssl=verify-full": "postgresql://u@h/d?sslmode=verify-full",
    "postgresql+psycopg://u:p%2B@h/d?a=b%3Dc": "postgresql://u:p%2B@h/d?a=b%3Dc",
    "postgresql+psycopg2://h1,h2/d": "postgresql://h1,h2/d",
    "host=h dbname=d": "postgresql://?host=h&dbname=d",
    r" host = h password = 'it\'s \\ 1'  user=a\ b port=": "postgresql://?host=h&password=it%27s%20%5C%201&user=a%20b",
    "host=::1,10.0.0.1 port=1,2": "postgresql://?host=%5B%3A%3A1%5D%2C10.0.0.1&port=1%2C2",
    "host=/run/postgresql": "postgresql://?host=%2Frun%2Fpostgresql",
    "hostaddr=::1 dbname=d": "postgresql://?host=%5B%3A%3A1%5D&dbname=d",
    "postgresql:///d?hostaddr=10.0.0.1": "postgresql:///d?host=10.0.0.1",
    "postgresql://h/d?options=-c%20geqo%3Doff&sslcrl=f&target_session_attrs=any&statement_timeout=5": (
        "postgresql://h/d?options=-c%20geqo%3Doff&sslcrl=f&target_session_attrs=any&statement_timeout=5"
    ),
}

REFUSED = [
    "channel_binding=require",
    "gssdelegation=1",
    "gssencmode=require",
    "hostaddr=10.0.0.1",
    "min_protocol_version=3.2",
    "oauth_issuer=x",
    "prepared_statement_cache_size=0",
    "replication=database",
    "require_auth=scram-sha-256",
    "requirepeer=postgres",
    "scram_client_key=x",
    "servicefile=x",
    "ssl=true",
    "sslcertmode=require",
    "sslcrldir=x",
    "sslkeylogfile=x",
    "sslrootcert=system",
    "sslsni=0",
]


@pytest.mark.parametrize("dsn", FORMS)
def test_each_form_of_a_dsn_becomes_a_uri_for_the_driver(dsn: str) -> None:
    """Users have the DSN that another library or tool was given."""
    assert Dsn(FORMS[dsn]) == read_dsn(dsn)


@pytest.mark.parametrize("form", ["{scheme}+asyncpg{rest}", "{scheme}+psycopg2{rest}", "keywords"])
async def test_each_form_of_a_dsn_leads_to_the_same_database(dsn: str, schema: str, form: str) -> None:
    """The URI is one that the driver reads; the driver checks it when it connects."""
    scheme, mark, rest = dsn.partition(":")
    written = form.format(scheme=scheme, rest=mark + rest)
    if form == "keywords":
        parts = urlsplit(dsn)
        words = {"host": parts.hostname, "port": parts.port, "user": parts.username, "dbname": parts.path.lstrip("/")}
        words |= dict(parse_qsl(parts.query))
        written = " ".join(f"{name}='{value}'" for name, value in words.items() if value)
    connection = await Database(written, schema).connect("test")
    expected = await Database(dsn, schema).connect("test")
    question = "select current_database() || current_user || inet_server_port() || pg_postmaster_start_time()"
    answers = [await each.fetchval(question.replace("inet_server_port()", "''")) for each in (expected, connection)]
    await hang_up(connection)
    await hang_up(expected)

    assert answers[0] == answers[1]


@pytest.mark.parametrize("parameter", REFUSED)
def test_a_parameter_that_asks_for_more_than_the_driver_can_do_is_refused_by_name(parameter: str) -> None:
    """The driver would send it to the server as a setting; ignored, it would promise missing safety."""
    name = parameter.partition("=")[0]
    for dsn in (f"postgresql://h/d?{parameter}", f"host=h {parameter}"):
        with pytest.raises(ConfigurationError, match=name):
            Client(dsn)


def test_parameters_on_which_nothing_depends_are_ignored_with_one_warning() -> None:
    """Hosted databases hand out DSNs with them."""
    asked = "channel_binding=prefer&gssencmode=disable&keepalives=1&sslsni=1&client_encoding=utf8&keepalives=1"
    with warnings.catch_warnings(record=True, action="always") as said:
        Client(f"postgresql://u:secret@h/d?{asked}")

    (warning,) = said
    names = "channel_binding, gssencmode, keepalives, sslsni, client_encoding"
    assert f"the DSN names parameters of libpq that have no effect here: {names}" == str(warning.message)
    assert __file__ == warning.filename


@pytest.mark.parametrize(
    ("asked", "timeout_s"),
    [("", 10.0), ("?connect_timeout=3", 3.0), ("?connect_timeout=0", 10.0), ("?connect_timeout=-1", 10.0)],
)
def test_a_connect_timeout_of_the_dsn_is_used(asked: str, timeout_s: float) -> None:
    """The default applies without one, or where libpq would wait for ever."""
    assert timeout_s == Database(f"postgresql://h/d{asked}", "s").connect_timeout_s


@pytest.mark.parametrize("value", ["", "soon", "1.5", "1e3", "٣"])
def test_a_connect_timeout_that_is_no_number_is_refused(value: str) -> None:
    """The constructor refuses it by the parameter's name."""
    with pytest.raises(ConfigurationError, match="connect_timeout in the DSN is a whole number of seconds"):
        Database(f"postgresql://h/d?connect_timeout={value}", "s")


async def test_settings_of_the_server_in_a_dsn_reach_it(dsn: str, schema: str) -> None:
    """They may be given by name or by libpq's `options`."""
    both = f"{dsn}{'&' if '?' in dsn else '?'}work_mem=4321kB&options=-c%20deadlock_timeout%3D4s"
    connection = await Database(both, schema).connect("test")
    found = [await connection.fetchval(f"show {name}") for name in ("work_mem", "deadlock_timeout")]
    await hang_up(connection)

    assert ["4321kB", "4s"] == found


@pytest.mark.parametrize("asked", ["pool_size=5", "statement_timeout=soon", "max_connections=7"])
async def test_a_parameter_that_the_server_refuses_is_named(dsn: str, schema: str, asked: str) -> None:
    """A setting that does not exist, or not with this value, or not for a session: mend the DSN."""
    with pytest.raises(ConfigurationError, match=f"a setting of the server: .*{asked.partition('=')[0]}"):
        await Database(f"{dsn}{'&' if '?' in dsn else '?'}{asked}", schema).connect("test")


@pytest.mark.parametrize("text", ["\0", "%00", "\ud800"])
def test_a_dsn_that_cannot_be_sent_is_refused(text: str) -> None:
    """The server would close the connection at the first message, which looks like an unreachable server."""
    with pytest.raises(ConfigurationError, match=r"it holds U\+0000, or a character that UTF-8 cannot encode"):
        Client(f"postgresql://u@h/d?application_name=a{text}")
