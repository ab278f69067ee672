"""The folder of one throw-away server: private, locked while in use, and removed when its owner is dead.

A folder is in use while its lock (flock on the folder itself) is held. The kernel releases the lock with its last
holder. Pids are not used, because they are reused, and mean nothing in another container that shares /tmp.
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
"""The longest path of a unix socket in bytes: `sockaddr_un` allows 103 on macOS, 107 on Linux."""

_PATH_IN_ROOT = f"/{PREFIX}12345678/.s.PGSQL.5432"
_PLAIN = re.compile(r"[A-Za-z0-9/._+-]+")
"""Characters that need no quotes in a DSN and in a comma-separated server setting."""


@dataclass(frozen=True)
class Folder:
    """A private folder, and the descriptor that holds its lock."""

    path: Path
    lock: int


def create(account: Account | None) -> Folder:
    """Make and lock a folder with mode 0700 that belongs to the server's account, or raise ServerFailed."""
    root = _root(account)
    while True:
        path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=root))
        lock = _try_lock(path)
        if lock is None:
            continue  # another process swept the folder before it was locked
        if not _is_still(path, lock):
            os.close(lock)
            continue
        if account is not None:
            os.chown(path, account.pw_uid, account.pw_gid)
        return Folder(path, lock)


def sweep(account: Account | None) -> None:
    """Remove the folders of dead launchers of this user; root also sweeps those of the account."""
    owners = {os.geteuid(), account.pw_uid} if account else {os.geteuid()}
    for path in _candidates(owners):
        lock = _try_lock(path)
        if lock is not None:
            shutil.rmtree(path, ignore_errors=True)
            os.close(lock)


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
    # The account has to enter each of these folders.
    return account is None or all(folder.stat().st_mode & 0o001 for folder in (Path(root), *Path(root).parents))


def _candidates(owners: set[int]) -> Iterator[Path]:
    for root in _roots():
        try:
            entries = list(os.scandir(root))
        except OSError:  # the folder does not exist, or cannot be read: it has no folder of ours
            continue
        for entry in entries:
            if entry.name.startswith(PREFIX) and _is_folder_of(entry, owners):
                yield Path(entry.path)


def _is_folder_of(entry: os.DirEntry[str], owners: set[int]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_uid in owners
    except OSError:  # removed after it was listed
        return False


def _try_lock(path: Path) -> int | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:  # removed after it was listed
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # held by the owner, or the file system has no locks: assume that it is in use
        os.close(descriptor)
        return None
    return descriptor


def _is_still(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False
