"""The folder of one throw-away server: made private, locked while in use, swept when its owner is dead.

A folder in use is a folder whose lock (flock on the folder itself) is held. The kernel drops the lock with its last
holder, so no pid has to be trusted: pids are reused, and mean nothing in another container that shares /tmp.
"""

import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from asyncq.server.account import Account
from asyncq.server.errors import ServerFailed

PREFIX = "asyncq-pg-"
SOCKET_PATH_LIMIT = 103
"""Bytes in the path of a unix socket: `sockaddr_un` has room for 103 on macOS, for 107 on Linux."""

_PATH_IN_ROOT = f"/{PREFIX}12345678/.s.PGSQL.5432"
_PLAIN = re.compile(r"[A-Za-z0-9/._+-]+")
"""What stands in a DSN and in a comma-separated server setting without quotes."""


@dataclass(frozen=True)
class Folder:
    """A private folder, and the descriptor that holds its lock."""

    path: Path
    lock: int


def create(account: Account | None) -> Folder:
    """Make a folder with mode 0700 that belongs to the server's account, and lock it.

    Args:
        account: Who owns it; None for ourselves.

    Raises:
        ServerFailed: There is no temporary folder whose path fits and that the account can reach.
    """
    root = _root(account)
    while True:
        path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=root))
        lock = _try_lock(path)
        if lock is None:
            continue  # a sweeper of another process was quicker than our lock, and removes it
        if not _is_still(path, lock):
            os.close(lock)
            continue
        if account is not None:
            os.chown(path, account.uid, account.gid)
        return Folder(path, lock)


def sweep(account: Account | None) -> list[Path]:
    """Remove the folders that dead launchers of this user left behind.

    Args:
        account: The server's account: as root we sweep its folders too.

    Returns:
        The folders that were removed.
    """
    owners = {os.geteuid(), account.uid} if account else {os.geteuid()}
    removed: list[Path] = []
    for path in _candidates(owners):
        lock = _try_lock(path)
        if lock is None:
            continue
        shutil.rmtree(path, ignore_errors=True)
        os.close(lock)
        if not path.exists():
            removed.append(path)
    return removed


def _roots() -> list[str]:
    return list(dict.fromkeys([tempfile.gettempdir(), "/tmp", "/var/tmp"]))


def _root(account: Account | None) -> str:
    for root in _roots():
        fits = len(os.fsencode(root + _PATH_IN_ROOT)) <= SOCKET_PATH_LIMIT
        if fits and _PLAIN.fullmatch(root) and _is_usable(root, account):
            return root
    raise ServerFailed(f"No server's folder fits in {', '.join(_roots())}: name a short, writable one in TMPDIR.")


def _is_usable(root: str, account: Account | None) -> bool:
    if not os.access(root, os.W_OK | os.X_OK):
        return False
    return account is None or all(_others_may_enter(folder) for folder in (Path(root), *Path(root).parents))


def _others_may_enter(folder: Path) -> bool:
    return bool(folder.stat().st_mode & 0o001)


def _candidates(owners: set[int]) -> Iterator[Path]:
    for root in _roots():
        try:
            entries = list(os.scandir(root))
        except OSError:  # no such folder, or not ours to read: nothing of ours is in it
            continue
        for entry in entries:
            if entry.name.startswith(PREFIX) and _is_folder_of(entry, owners):
                yield Path(entry.path)


def _is_folder_of(entry: os.DirEntry[str], owners: set[int]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_uid in owners
    except OSError:  # removed since it was listed
        return False


def _try_lock(path: Path) -> int | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:  # removed since it was listed
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # held by the owner, or this file system has no locks: in doubt it is in use
        os.close(descriptor)
        return None
    return descriptor


def _is_still(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False
