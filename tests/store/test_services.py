"""Services: the file of libpq says where a name leads."""

from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from asyncq import ConfigurationError
from asyncq.store.database import Database, default_dsn

Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes the file of services, and lets the environment name it."""
    path = tmp_path / "services.conf"
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.setenv("PGSERVICEFILE", str(path))

    def written(text: str) -> Path:
        path.write_text(text)
        return path

    return written


async def test_a_service_overrides_the_other_variables(
    dsn: str, schema: str, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """psql does the same: PGHOST and PGDATABASE only complete missing values."""
    parts = urlsplit(dsn)
    host = parts.hostname or parse_qs(parts.query)["host"][0]
    port = parts.port or parse_qs(parts.query)["port"][0]
    named = f"host={host}\nport={port}\ndbname={parts.path[1:]}\nuser={parts.username}\npassword={parts.password}\n"
    write(f"[jobs here]\n{named}")
    monkeypatch.setenv("PGSERVICE", "jobs here")
    monkeypatch.setenv("PGHOST", "nowhere.invalid")
    monkeypatch.setenv("PGDATABASE", "nowhere")
    connection = await Database(default_dsn() or "", schema).connect("test")
    reached = await connection.fetchval("select current_database()")
    await connection.close()

    assert parts.path[1:] == reached


def test_a_service_that_the_file_lacks_is_refused(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver passes over it, and would connect to the default database."""
    path = write("[other]\nhost=h\n")
    monkeypatch.setenv("PGSERVICE", "jobs")
    with pytest.raises(ConfigurationError) as refused:
        Database(default_dsn() or "", "asyncq")

    assert f"there is no service 'jobs' in {path}" in str(refused.value)


def test_without_the_file_there_is_no_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This includes a service in a DSN. Without PGSERVICEFILE the file in the home folder is used."""
    monkeypatch.delenv("PGSERVICEFILE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(ConfigurationError) as refused:
        Database("postgresql://app@h/d?service=jobs", "asyncq")

    assert f"there is no service 'jobs' in {tmp_path}/.pg_service.conf" in str(refused.value)


@pytest.mark.parametrize("text", ["host=h\n", "[jobs]\nhost=h\nhost=i\n", "[jobs]\npassword=secret%\n"])
def test_a_file_that_the_driver_cannot_read_is_refused_without_its_contents(write: Write, text: str) -> None:
    """The driver would raise the parser's error, with the line in it."""
    path = write(text)
    with pytest.raises(ConfigurationError) as refused:
        Database("postgresql://?service=jobs", "asyncq")

    assert f"the service 'jobs' cannot be looked up: {path} cannot be read" in str(refused.value)
    assert (None, False) == (refused.value.__cause__, "secret" in str(refused.value))


async def test_settings_of_a_service_that_the_driver_ignores_are_used(dsn: str, schema: str, write: Write) -> None:
    """They count like parameters of the DSN, whose own ones take precedence."""
    parts = urlsplit(dsn)
    asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
    lines = [f"{name}={value}" for name, value in asked.items()]
    lines += [f"user={parts.username}", f"dbname={parts.path.lstrip('/')}", "connect_timeout=7", "work_mem=4321kB"]
    write("\n".join(["[jobs]", *lines, "options=-c deadlock_timeout=4s"]))
    database = Database("postgresql://?service=jobs&options=-c%20deadlock_timeout%3D5s", schema)
    connection = await database.connect("test")
    found = [await connection.fetchval(f"show {name}") for name in ("work_mem", "deadlock_timeout")]
    await connection.close(timeout=5)

    assert (7.0, ["4321kB", "5s"]) == (database.connect_timeout_s, found)
    assert (7.0, 3.0) == tuple(
        Database(f"postgresql://?service=jobs{more}", schema).connect_timeout_s for more in ("", "&connect_timeout=3")
    )


@pytest.mark.parametrize(
    "line", ["channel_binding=require", "gssencmode=require", "hostaddr=10.0.0.1", "require_auth=none"]
)
def test_a_service_that_asks_for_more_than_the_driver_can_do_is_refused(write: Write, line: str) -> None:
    """The driver would ignore it, and the demanded safety would be missing."""
    write(f"[jobs]\nhost=h\n{line}\n")
    with pytest.raises(ConfigurationError, match=line.partition("=")[0]):
        Database("postgresql://?service=jobs", "s")


def test_a_service_may_lead_to_a_pooler_with_a_warning_about_settings_without_effect(write: Write) -> None:
    """The message is that for a DSN."""
    write("[jobs]\nhost=h\nstatement_cache_size=0\nkeepalives=1\n")
    with pytest.warns(UserWarning, match="no effect here: keepalives$"):
        database = Database("postgresql://?service=jobs", "s")

    assert (True, "postgresql://?service=jobs") == (database.is_pooled, database.dsn)
