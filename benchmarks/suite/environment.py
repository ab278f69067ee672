"""Sets up the environments of the measured programs once, in the cache: Python, Node with packages, Redis."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.suite import redis
from benchmarks.suite.places import CACHE, NODE, ROOT
from benchmarks.suite.python import measured_python

REQUIREMENTS = ROOT / "benchmarks"
OF_REDIS = ("redis-server", "redis-tools", "liblzf1", "libjemalloc2", "libatomic1")


def say(text: str) -> None:
    """Print one step line."""
    print(f"bench: {text}", flush=True)


def prepare(homes: set[str]) -> set[str]:
    """Set up missing environments.

    Args:
        homes: Names of environments.

    Returns:
        Those that can be used; the reason why another cannot was printed.
    """
    CACHE.mkdir(exist_ok=True)
    python = measured_python(run_quietly, say)
    ready: set[str] = set()
    for home in sorted(homes - {"node"} | ({"peers"} if "node" in homes else set())):
        words = ["-e", ".[uvloop]"] if home == "asyncq" else ["-r", f"benchmarks/requirements-{home}.txt"]
        if environment(home, python, words):
            ready.add(home)
    if "node" in homes and "peers" in ready and node_packages():
        ready.add("node")
    return ready


def environment(home: str, python: Path, words: Sequence[str]) -> bool:
    """Make an environment of Python, or leave it as it is when nothing has changed."""
    folder = CACHE / home
    listed = ROOT / ("pyproject.toml" if home == "asyncq" else words[-1])
    stamp = hashlib.sha256(listed.read_bytes() + str(python).encode() + str(ROOT).encode()).hexdigest()
    if is_stamped(folder, stamp):
        return True
    shutil.rmtree(folder, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python")]
    done = run_quietly(f"making the environment {home!r}", [str(python), "-m", "venv", "--without-pip", str(folder)])
    done = done and run_quietly(f"installing into {home!r}", [*pip, "install", *words])
    return done and put_stamp(folder, stamp)


def node_packages() -> bool:
    """Install the packages of Node as the lock file has them, and copy our programs beside them."""
    folder, lock = CACHE / "node", NODE / "package-lock.json"
    stamp = hashlib.sha256(lock.read_bytes()).hexdigest()
    if not is_stamped(folder, stamp):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for name in ("package.json", "package-lock.json"):
            shutil.copy(NODE / name, folder)
        npm = [str(CACHE / "peers" / "bin" / "npm"), "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        if not run_quietly("installing the packages of Node", npm, folder):
            return False
        put_stamp(folder, stamp)
    for program in NODE.glob("*.js"):
        shutil.copy(program, folder)
    return True


def redis_is_here() -> bool:
    """Whether there is a Redis: on the PATH, or unpacked into the cache from the packages of the distribution."""
    if redis.program() is None and shutil.which("apt-get") and shutil.which("dpkg-deb"):
        folder = CACHE / "redis"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        if run_quietly("fetching Redis", ["apt-get", "download", *OF_REDIS], folder):
            for package in folder.glob("*.deb"):
                run_quietly(
                    f"unpacking {package.name.partition('_')[0]}", ["dpkg-deb", "-x", package.name, "."], folder
                )
    if redis.program() is None:
        say("redis-server is not installed: the queues on Redis are left out")
        return False
    return True


def is_stamped(folder: Path, stamp: str) -> bool:
    """Whether it was finished in this very way."""
    file = folder / "asyncq-bench-stamp"
    return file.exists() and file.read_text() == stamp


def put_stamp(folder: Path, stamp: str) -> bool:
    """Note that it is finished."""
    (folder / "asyncq-bench-stamp").write_text(stamp)
    return True


def run_quietly(what: str, command: Sequence[str], folder: Path = ROOT) -> bool:
    """Run a program, and show its output only if it fails."""
    say(what)
    path = f"{CACHE / 'peers' / 'bin'}{os.pathsep}{os.environ['PATH']}"  # npm asks for `node`
    done = subprocess.run(
        list(command),
        cwd=folder,
        env={**os.environ, "PATH": path, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_ROOT_USER_ACTION": "ignore"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        say(f"FAILED: {done.stdout[-3000:].strip()}")
    return done.returncode == 0


def versions(home: str, packages: Sequence[str]) -> dict[str, str]:
    """The installed versions: package -> version."""
    if home == "node":
        import json

        installed = CACHE / "node" / "node_modules"
        return {name: json.loads((installed / name / "package.json").read_text())["version"] for name in packages}
    code = "import sys, importlib.metadata as m; print(*(m.version(name) for name in sys.argv[1:]))"
    python = CACHE / home / "bin" / "python"
    done = subprocess.run([python, "-c", code, *packages], capture_output=True, text=True, check=True)
    return dict(zip(packages, done.stdout.split(), strict=True))


def version_of(program: Path) -> str:
    """The answer of a program to `--version`."""
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    return done.stdout.strip().removeprefix("Python ").removeprefix("v")
