"""Keeps the release before this one: its sdist, stripped to what a worker needs, which the tests of upgrades install.

`python3 tools/x.py release 0.2.0` writes tests/upgrades/asyncq-0.2.0.tar.gz from the checkout, and removes that of the
release before. Once that version is published its migrations are frozen: tests/house/test_releases.py compares them.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

CHECKOUT = Path(__file__).parents[1]
IS_PUBLISHED = False
"""Whether a version of asyncq is on an index. Until then the migrations are edited in place, and the kept release is
rebuilt from the checkout; from the first upload on they are frozen. Set it to True with that upload, and never back."""

FOLDER = CHECKOUT / "tests" / "upgrades"
LARGEST = 600_000
FILES = ("README.md", "LICENSE")
LEFT_OUT = ("__pycache__", "server", "testing", "web", "contrib")
"""Parts that no worker imports."""

VERSION = re.compile(r'^version = "(.*)"$', re.MULTILINE)
NUMBER = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+")


def kept() -> list[Path]:
    """The sdists that are kept, of which there should be one."""
    return sorted(FOLDER.glob("asyncq-*.tar.gz"))


def contents(sdist: Path) -> dict[str, bytes]:
    """The files of an sdist by their paths, without its top folder."""
    found: dict[str, bytes] = {}
    with tarfile.open(sdist) as archive:
        for member in archive:
            if (file := archive.extractfile(member)) is not None:
                found[member.name.partition("/")[2]] = file.read()
    return found


def checksums(files: dict[str, bytes], below: str) -> dict[str, str]:
    """SHA-256 of each file below a folder, by its path."""
    return {path: hashlib.sha256(text).hexdigest() for path, text in files.items() if path.startswith(below)}


def sql_files() -> dict[str, bytes]:
    """The files below sql/ of the checkout, by their paths."""
    return {path.relative_to(CHECKOUT).as_posix(): path.read_bytes() for path in (CHECKOUT / "sql").rglob("*.sql")}


def edited(released: dict[str, bytes]) -> list[str]:
    """The migrations of a release that are others in the checkout, or are gone."""
    now = checksums(sql_files(), "sql/migrations/")
    return [path for path, before in checksums(released, "sql/migrations/").items() if now.get(path) != before]


def unmarked(released: dict[str, bytes]) -> list[str]:
    """The functions that differ from those of a published release, where no migration is newer than its migrations."""
    before, now = (checksums(files, "sql/functions/") for files in (released, sql_files()))
    newest = max((path for path in sql_files() if path.startswith("sql/migrations/")), default="")
    if not IS_PUBLISHED or newest > max(path for path in released if path.startswith("sql/migrations/")):
        return []
    return sorted(path for path in {*before, *now} if before.get(path) != now.get(path))


def build(version: str, folder: Path) -> Path:
    """Build the sdist of the checkout as a release, stripped.

    Args:
        version: The release's version.
        folder: Where to put it.

    Returns:
        The path of the archive.
    """
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        for part in ("asyncq", "sql"):
            shutil.copytree(CHECKOUT / part, place / part, ignore=shutil.ignore_patterns(*LEFT_OUT))
        for part in FILES:
            shutil.copy(CHECKOUT / part, place)
        project = (CHECKOUT / "pyproject.toml").read_text("utf-8")
        (place / "pyproject.toml").write_text(VERSION.sub(f'version = "{version}"', project, count=1), "utf-8")
        command = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(folder)]
        done = subprocess.run(command, cwd=place, check=False, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return folder / f"asyncq-{version}.tar.gz"


def main(arguments: Sequence[str]) -> int:
    """Keep the checkout as a release.

    Args:
        arguments: Its version.

    Returns:
        The exit code.
    """
    if len(arguments) != 1 or not NUMBER.fullmatch(arguments[0]):
        print("which release? For example: python3 tools/x.py release 0.2.0", file=sys.stderr)
        return 2
    (version,) = arguments
    with tempfile.TemporaryDirectory() as name:
        built = build(version, Path(name))
        if (size := built.stat().st_size) >= LARGEST:
            print(f"{built.name} has {size} bytes, {LARGEST} are too many: leave more out", file=sys.stderr)
            return 1
        for before in kept():
            # The same release may be cut again until it is published.
            if IS_PUBLISHED and before.name != built.name and (wrong := edited(contents(before))):
                print(f"{', '.join(wrong)}: edited since {before.name}; add a migration instead", file=sys.stderr)
                return 1
        for before in kept():
            before.unlink()
        shutil.copy(built, FOLDER)
    print(f"kept tests/upgrades/{built.name}: {size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
