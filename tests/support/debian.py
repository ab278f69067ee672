"""Programs of Debian's packages, unpacked into a cache of the checkout: they need neither installation nor root."""

import fcntl
import shutil
import subprocess
from pathlib import Path

CACHE = Path(__file__).resolve().parents[2] / ".venv" / "debian"
LIMIT_S = 60


def unpacked(*packages: str, with_dependencies: bool = False) -> Path | None:
    """The folder with the files of some packages; None without apt, or if apt does not know them.

    Args:
        packages: Their names: the needed one, and libraries that this machine may lack.
        with_dependencies: Whether also the packages that apt would install with the first one.
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
        return place if place.is_dir() or _fetch(place, packages, with_dependencies=with_dependencies) else None


def _fetch(place: Path, packages: tuple[str, ...], *, with_dependencies: bool) -> bool:
    """Fetch and unpack; whole or not at all."""
    half = place.with_suffix(".half")
    shutil.rmtree(half, ignore_errors=True)
    (half / "files").mkdir(parents=True)
    try:
        if with_dependencies:
            packages += _missing(half, packages)
        _run(half, "apt-get", "download", *packages)
        for archive in half.glob("*.deb"):
            _run(half, "dpkg-deb", "-x", archive.name, "files")
    except (OSError, subprocess.SubprocessError):
        shutil.rmtree(half)
        return False
    (half / "files").rename(place)
    shutil.rmtree(half)
    return True


def _missing(folder: Path, packages: tuple[str, ...]) -> tuple[str, ...]:
    """The packages that apt would install with these."""
    said = _run(folder, "apt-get", "install", "--simulate", "--no-install-recommends", *packages)
    lines = (line.split() for line in said.splitlines())
    return tuple(words[1] for words in lines if words[:1] == ["Inst"] and words[1] not in packages)


def _run(folder: Path, *words: str) -> str:
    done = subprocess.run(
        words, cwd=folder, check=True, timeout=LIMIT_S, capture_output=True, stdin=subprocess.DEVNULL, text=True
    )
    return done.stdout
