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


async def test_a_service_comes_before_the_other_variables(
    dsn: str, schema: str, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with psql: PGHOST and PGDATABASE only complete what it does not say."""
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
    """Of a DSN too; without PGSERVICEFILE it is the one at home."""
    monkeypatch.delenv("PGSERVICEFILE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(ConfigurationError) as refused:
        Database("postgresql://app@h/d?service=jobs", "asyncq")

    assert f"there is no service 'jobs' in {tmp_path}/.pg_service.conf" in str(refused.value)


@pytest.mark.parametrize("text", ["host=h\n", "[jobs]\nhost=h\nhost=i\n", "[jobs]\npassword=secret%\n"])
def test_a_file_that_the_driver_cannot_read_is_refused_without_what_it_says(write: Write, text: str) -> None:
    """The driver would raise the parser's error, with the line in it."""
    path = write(text)
    with pytest.raises(ConfigurationError) as refused:
        Database("postgresql://?service=jobs", "asyncq")

    assert f"the service 'jobs' cannot be looked up: {path} cannot be read" in str(refused.value)
    assert (None, False) == (refused.value.__cause__, "secret" in str(refused.value))
