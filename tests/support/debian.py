"""Programs of Debian's packages, unpacked into a cache of the checkout: they need neither installation nor root."""

import fcntl
import shutil
import subprocess
from pathlib import Path

CACHE = Path(__file__).resolve().parents[2] / ".venv" / "debian"
LIMIT_S = 60


def unpacked(*packages: str) -> Path | None:
    """The folder with the files of some packages; None without apt, or if apt does not know them.

    Args:
        packages: Their names: the needed one, and libraries that this machine may lack.
    """
    place = CACHE / packages[0]
    if place.is_dir():
        return place
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None or not CACHE.parent.is_dir():
        return None
    CACHE.mkdir(exist_ok=True)
    with (CACHE / f"{packages[0]}.lock").open("w") as lock:
        # Several processes of a test run may want it at once.
        fcntl.flock(lock, fcntl.LOCK_EX)
        return place if place.is_dir() or _fetch(place, packages) else None


def _fetch(place: Path, packages: tuple[str, ...]) -> bool:
    """Fetch and unpack; whole or not at all."""
    half = place.with_suffix(".half")
    shutil.rmtree(half, ignore_errors=True)
    (half / "files").mkdir(parents=True)
    try:
        _run(half, "apt-get", "download", *packages)
        for archive in half.glob("*.deb"):
            _run(half, "dpkg-deb", "-x", archive.name, "files")
    except (OSError, subprocess.SubprocessError):
        shutil.rmtree(half)
        return False
    (half / "files").rename(place)
    shutil.rmtree(half)
    return True


def _run(folder: Path, *words: str) -> None:
    subprocess.run(words, cwd=folder, check=True, timeout=LIMIT_S, capture_output=True, stdin=subprocess.DEVNULL)
