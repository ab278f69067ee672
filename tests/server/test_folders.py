"""The folder of a server: short, private, locked while it is in use, swept when its owner is dead."""

import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from asyncq.server import folders, start
from asyncq.server.account import account_to_drop_to
from tests.server.test_launcher import fetch


@pytest.fixture
def folder(private_root: Path) -> Iterator[folders.Folder]:
    """A folder as a launcher has it, before the server is there."""
    created = folders.create(account_to_drop_to())
    yield created
    if created.path.exists():
        created.path.rmdir()


@pytest.mark.parametrize("name", ["a" * 90, "mit Umlaut ü", "comma,", 'quote"', "percent%20"])
def test_a_temporary_folder_that_cannot_hold_a_socket_is_passed_over(
    name: str, public_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Socket paths end at about 100 bytes, and CI systems like long temporary folders."""
    unfit = public_folder / name
    unfit.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(unfit))

    created = folders.create(account_to_drop_to())

    created.path.rmdir()  # while it is locked: afterwards anybody may sweep it
    os.close(created.lock)
    assert str(created.path.parent) in {"/tmp", "/var/tmp"}


def test_a_temporary_folder_that_can_hold_a_socket_is_used(private_root: Path) -> None:
    """TMPDIR is where the user has the room, or a memory disk."""
    created = folders.create(account_to_drop_to())

    os.close(created.lock)
    assert private_root == created.path.parent


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives its folders to somebody else")
def test_a_temporary_folder_that_the_servers_account_cannot_enter_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some systems give each user a private TMPDIR; root's is closed to `postgres`."""
    tmp_path.chmod(0o700)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    created = folders.create(account_to_drop_to())

    created.path.rmdir()  # while it is locked: afterwards anybody may sweep it
    os.close(created.lock)
    assert created.path.parent != tmp_path


def test_a_server_starts_with_a_long_temporary_folder_that_is_not_ascii(
    public_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole of it, once: initdb, socket and DSN."""
    folder = public_folder / ("ü" * 60)
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))

    with start() as server:
        assert fetch(server, "select 1") == 1


def test_a_folder_is_private(folder: folders.Folder) -> None:
    """The server trusts every user who can reach its socket."""
    os.close(folder.lock)

    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700


def test_a_locked_folder_is_not_swept(folder: folders.Folder) -> None:
    """The lock shows that the folder is in use, even by another container."""
    folders.sweep(account_to_drop_to())

    os.close(folder.lock)
    assert folder.path.exists()


def test_a_folder_whose_owner_is_dead_is_swept(folder: folders.Folder) -> None:
    """The kernel drops the lock with the process that held it."""
    (folder.path / "data").mkdir()
    os.close(folder.lock)

    folders.sweep(account_to_drop_to())

    assert not folder.path.exists()


@pytest.mark.usefixtures("private_root")
def test_folders_of_another_name_are_not_swept() -> None:
    """The temporary folder belongs to everybody."""
    with tempfile.TemporaryDirectory(prefix="asyncq-other-") as other:
        folders.sweep(account_to_drop_to())

        assert Path(other).exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a folder of somebody else")
def test_folders_of_another_user_are_not_swept(folder: folders.Folder) -> None:
    """Another user's launcher may be between making the folder and locking it."""
    os.close(folder.lock)
    os.chown(folder.path, 12345, 12345)

    folders.sweep(account_to_drop_to())

    assert folder.path.exists()


def test_a_link_with_our_name_is_not_followed(tmp_path: Path, private_root: Path) -> None:
    """Any user can put a link into /tmp, so its target must stay."""
    (tmp_path / "kept").touch()
    link = private_root / f"{folders.PREFIX}link"
    link.symlink_to(tmp_path)

    folders.sweep(account_to_drop_to())

    assert (tmp_path / "kept").exists()
