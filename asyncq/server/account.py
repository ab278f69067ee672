"""The account of the server: our own, or `postgres` or `nobody` for root, because PostgreSQL refuses root."""

import hashlib
import os
import pwd
import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

from asyncq.server.binaries import Binaries
from asyncq.server.errors import ServerFailed

CACHE = Path("/var/cache/asyncq")
"""The folder of root's copies of binaries that the account cannot read (not /var/tmp: anybody can write there)."""


Account = pwd.struct_passwd


def account_to_drop_to() -> Account | None:
    """Choose the account of the server; None for an ordinary user, whose server runs under the same account."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with suppress(KeyError):
            return pwd.getpwnam(name)
    raise ServerFailed("PostgreSQL does not run as root, and there is no user `postgres` or `nobody` to run it as.")


def readable_bindir(binaries: Binaries, account: Account | None) -> Path:
    """Return a folder of these binaries that the account (None: our own) can run; those of a wheel may be copied."""
    if account is None or _runs(binaries.bindir, account):
        return binaries.bindir
    if binaries.origin != "embedded":
        raise ServerFailed(
            f"The user {account.pw_name!r} cannot run {binaries.bindir}/postgres (PostgreSQL does not run as root): "
            "make that folder readable for everybody, or name another one in ASYNCQ_PG_BIN."
        )
    try:
        copy = _copy_of(binaries.bindir)
    except OSError as error:
        raise ServerFailed(
            f"The user {account.pw_name!r} cannot run {binaries.bindir}/postgres, and a copy in {CACHE} failed "
            f"({error}): install asyncq where everybody can read it, or name another PostgreSQL in ASYNCQ_PG_BIN."
        ) from error
    if not _runs(copy, account):
        raise ServerFailed(
            f"The user {account.pw_name!r} cannot run {copy}/postgres: name another one in ASYNCQ_PG_BIN."
        )
    return copy


def _runs(bindir: Path, account: Account) -> bool:
    command = [str(bindir / "initdb"), "--version"]
    try:
        subprocess.run(
            command,
            user=account.pw_uid,
            group=account.pw_gid,
            extra_groups=[],
            cwd="/",
            capture_output=True,
            check=True,
            start_new_session=True,  # Ctrl-C must not look like a PostgreSQL that does not run
        )
    except (PermissionError, subprocess.CalledProcessError):
        return False
    return True


def _copy_of(bindir: Path) -> Path:
    """Copy `<package>/pginstall*` and the libraries beside the package once; the name is a hash of the content."""
    tree = bindir.parent
    package = tree.parent
    digest = hashlib.sha256(f"{package.name}/{tree.name}".encode())
    digest.update((bindir / "postgres").read_bytes())
    target = CACHE / digest.hexdigest()[:16]
    copied_bindir = target / package.name / tree.name / "bin"
    if copied_bindir.is_dir():
        return copied_bindir
    CACHE.mkdir(parents=True, exist_ok=True)
    CACHE.chmod(0o755)
    fresh = Path(tempfile.mkdtemp(prefix="new-", dir=CACHE))
    try:
        ignore = shutil.ignore_patterns("include", "pkgconfig", "*.a")
        shutil.copytree(tree, fresh / package.name / tree.name, symlinks=True, ignore=ignore)
        libraries = package.with_name(f"{package.name}.libs")
        if libraries.is_dir():
            shutil.copytree(libraries, fresh / libraries.name, symlinks=True)
        _open_to_all(fresh)
        fresh.rename(target)
    except OSError:
        if not copied_bindir.is_dir():  # else another process was first, and its copy is the same
            raise
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return copied_bindir


def _open_to_all(top: Path) -> None:
    """Make the tree readable for all and writable for root alone, whatever the umask was when pip unpacked it."""
    for folder, _, files in os.walk(top):
        Path(folder).chmod(0o755)
        for name in files:
            file = Path(folder, name)
            if not file.is_symlink():
                file.chmod(0o755 if file.stat().st_mode & 0o100 else 0o644)
