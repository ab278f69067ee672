"""Every chore of this checkout as one command: `python3 tools/x.py demo`, `python3 tools/x.py test`; make calls it too.

It needs a Python with pip (or ensurepip) and nothing else: no make, no git, no venv package of the distribution. What
it installs goes into `.venv`; a second run with the same pyproject.toml installs nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / "asyncq-setup.json"

OLDEST_PYTHON = (3, 11)
PIP = "pip>=25.1"
"""The first pip that knows `--group`."""

if TYPE_CHECKING:
    Target = tuple[str, dict[str, str]]
    """A server to test on: its title, and the variables that lead the tests there."""
    Step = tuple[str, list[str | Path]]
    """A check: its name, and its command."""

LEVELS = {"demo": ["-e", ".[embedded]"], "test": ["-e", ".", "--group", "test"], "dev": ["-e", ".", "--group", "dev"]}
"""What pip installs for each level; a later level holds all of the earlier ones."""

CACHES = (
    ".venv",
    ".bench",
    ".hypothesis",
    ".import_linter_cache",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    "build",
    "dist",
)


class Refusal(Exception):
    """A sentence for the user; nothing more is done."""


def say(text: str) -> None:
    """Print one step line."""
    print(f"x.py: {text}", flush=True)


# Running programs


UNWANTED = {"PYTHONHOME", "PIP_TARGET", "PIP_PREFIX", "PYTHONDONTWRITEBYTECODE"}
"""Variables that would send an installation elsewhere than into `.venv`, or let each process compile every module."""


def environment(**more: str) -> dict[str, str]:
    """Our environment for pip and tools, less what is unwanted."""
    kept = {name: value for name, value in os.environ.items() if name not in UNWANTED}
    quiet = {
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_NO_INPUT": "1",
        "PIP_ROOT_USER_ACTION": "ignore",
        "PIP_USER": "0",
    }
    return {**kept, **quiet, **more}


def run(command: Sequence[str | Path], **more: str) -> int:
    """Run a program in the checkout with its output on our terminal, and return its exit code.

    For a program that a signal ended it is 128 and the signal's number, as in a shell.
    """
    with subprocess.Popen([str(word) for word in command], cwd=ROOT, env=environment(**more)) as process:
        while True:
            try:
                code = process.wait()
                break
            except KeyboardInterrupt:
                pass  # the terminal sent it to the program too, which decides when it ends
    if code >= 0:
        return code
    say(f"{signal_name(-code)} ended `{' '.join(str(word) for word in command)}`")
    return 128 - code


def signal_name(number: int) -> str:
    """Name a signal, such as SIGKILL."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def run_quietly(what: str, command: Sequence[str | Path]) -> bool:
    """Run a program, show its output only if it fails, and print how long it took."""
    started = time.monotonic()
    print(f"x.py: {what} ... ", end="", flush=True)
    done = subprocess.run(
        [str(word) for word in command],
        cwd=ROOT,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    passed = done.returncode == 0
    ending = "ok" if passed else "FAILED" if done.returncode > 0 else f"FAILED by {signal_name(-done.returncode)}"
    print(f"{ending} ({time.monotonic() - started:.1f} s)", flush=True)
    if not passed:
        print(done.stdout.rstrip(), flush=True)
    return passed


# Set-up


def check_python() -> None:
    """Refuse a Python that is too old, and name a newer one if the machine has it."""
    if sys.version_info >= OLDEST_PYTHON:
        return
    newer = [name for name in ("python3.14", "python3.13", "python3.12", "python3.11") if shutil.which(name)]
    advice = f"run `{newer[0]} {' '.join(sys.argv)}`" if newer else "install a newer one, and run this with it"
    raise Refusal(f"asyncq needs Python 3.11 or newer, and this is {sys.version.split()[0]}: {advice}.")


def check_venv_is_ours() -> None:
    """Refuse a `.venv` that pip could only spoil, or not write at all."""
    if not VENV.exists():
        if not os.access(ROOT, os.W_OK):
            raise Refusal(
                f"{ROOT} cannot be written, so that .venv cannot be made: copy the checkout to a folder of yours."
            )
        return
    owner = VENV.stat().st_uid
    if owner != os.geteuid():
        raise Refusal(f"{VENV} belongs to the user with id {owner}, not to you: remove it, or run this as its owner.")
    if not os.access(VENV, os.W_OK | os.X_OK):
        raise Refusal(f"{VENV} cannot be written: make it writable, or remove it.")
    if not STAMP.exists():
        raise Refusal(f"{VENV} was made by something else than this script: remove it, or give it another name.")


@contextlib.contextmanager
def one_at_a_time() -> Generator[None]:
    """Let one set-up of this checkout run at a time; the lock is on this very file, so that none has to be made."""
    import fcntl

    with open(__file__, encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def fingerprint() -> dict[str, str]:
    """The properties on which an installed `.venv` depends: its path, its Python, and pyproject.toml."""
    project = hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()
    return {"home": str(ROOT), "python": sys.version.split()[0], "project": project}


def read_stamp() -> dict[str, str]:
    """Read what the last set-up left, or nothing."""
    try:
        return json.loads(STAMP.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def setup(level: str) -> None:
    """Make `.venv` and install what the level needs; does nothing when that was done before."""
    check_python()
    check_venv_is_ours()
    with one_at_a_time():
        now, stamp = fingerprint(), read_stamp()
        levels = list(LEVELS)
        done = stamp.get("level")
        if done in LEVELS and levels.index(done) > levels.index(level):
            level = done
        if PYTHON.exists() and stamp == {**now, "level": level}:
            return
        if not PYTHON.exists() or any(stamp.get(part) != now[part] for part in ("home", "python")):
            make_venv()
        STAMP.write_text(json.dumps({**now, "level": ""}), encoding="utf-8")
        if not run_quietly(f"installing what `{level}` needs", [PYTHON, "-m", "pip", "install", *LEVELS[level]]):
            raise Refusal("pip could not install what is needed; the lines above say why.")
        STAMP.write_text(json.dumps({**now, "level": level}), encoding="utf-8")


def make_venv() -> None:
    """Make an empty `.venv` with a new pip, by this Python's own pip if it has one, else by ensurepip."""
    if Path(sys.prefix) == VENV:
        raise Refusal(
            ".venv has to be made again, which its own Python cannot do: run this with the Python outside of it."
        )
    if VENV.exists():
        shutil.rmtree(VENV)
    if importlib.util.find_spec("pip"):
        steps = [
            [sys.executable, "-m", "venv", "--without-pip", VENV],
            [sys.executable, "-m", "pip", "--python", PYTHON, "install", PIP],
        ]
    elif importlib.util.find_spec("ensurepip"):
        steps = [[sys.executable, "-m", "venv", VENV], [PYTHON, "-m", "pip", "install", "--upgrade", PIP]]
    else:
        raise Refusal(
            f"{sys.executable} has neither pip nor ensurepip: on Debian `apt-get install python3-pip` brings the first."
        )
    made = False
    try:
        titles = f"making .venv with Python {sys.version.split()[0]}", f"installing {PIP}"
        made = all(run_quietly(title, step) for title, step in zip(titles, steps, strict=True))
    finally:
        if not made:
            shutil.rmtree(VENV, ignore_errors=True)
    if not made:
        raise Refusal("the virtual environment could not be made; the lines above say why.")


# The servers that the tests run on


def servers() -> list[Target]:
    """Choose what the suite runs on.

    What the user's environment names is taken alone; else the system's PostgreSQL and the newest embedded one, or the
    first alone when they are the same major version.
    """
    for name in ("ASYNCQ_TEST_DATABASE_URL", "ASYNCQ_PG_BIN"):
        if os.environ.get(name):
            return [(f"the PostgreSQL of {name}", {})]
    listing = subprocess.run(
        [PYTHON, "-m", "asyncq.server", "list"], cwd=ROOT, text=True, stdout=subprocess.PIPE, check=True
    )
    chosen: dict[str, tuple[str, str, str]] = {}
    for line in listing.stdout.splitlines():
        major, version, origin, bindir = line.split("\t")
        chosen.setdefault(origin, (major, version, bindir))
    if "system" in chosen and chosen.get("embedded", ("",))[0] == chosen["system"][0]:
        del chosen["embedded"]
    if not chosen:
        raise Refusal("no PostgreSQL is here, not even the embedded one: `python3 tools/x.py clean`, then try again.")
    return [
        (f"PostgreSQL {version} ({origin}, {bindir})", {"ASYNCQ_PG_BIN": bindir})
        for origin, (_, version, bindir) in chosen.items()
    ]


INTERRUPTED = (2, 130)
TIMES = VENV / "asyncq-test-times.json"
USUAL_S = (300.0, 194.0)
"""How long the tests take on two quiet cores: all on the first server, and those not in ONCE on the next one."""
# Tests that need no server, or for which one is enough, by their folders: processes, signals, handlers, words and logs
# do not depend on the version of the server, and the statements are those of tests/sql and tests/store.
ONCE = {
    ".": ("benchmarks", "domain", "engine/base", "fundamentals", "house", "log", "typing", "upgrades"),
    "cli": (
        *(
            "add",
            "cleanup",
            "completion",
            "config",
            "cron",
            "crontab",
            "dashboard",
            "dev",
            "jobs",
            "jobs_change",
            "limits",
        ),
        *("loading", "main", "pause", "reload", "signals_at_start", "worker", "worker_group", "worker_log", "workers"),
    ),
    "client": (
        *("codec", "connections", "fields", "handles", "local_time", "middleware", "sync_client", "sync_connections"),
    ),
    "deployment": ("archive",),
    "engine": (
        *("connections", "events", "lifespan", "log_hint", "shutdown", "signals", "start", "supervisor", "together"),
    ),
    "engine/cron": ("odd_items", "processes", "scheduler"),
    "engine/fetch": ("buffer", "choice", "cursor", "fetch_size", "inbox", "new_tasks"),
    "engine/liveness": ("lease_state", "loop_watchdog", "start_gate"),
    "engine/run": (
        *("attempts_made", "child_tasks", "codec", "collect", "context", "deadline", "executor", "forks"),
        *("items", "job_logger", "middleware", "process_ends", "process_pools", "processes", "progress", "resources"),
        *("stuck", "time_limit", "verdict"),
    ),
    "engine/settle": ("errors", "gathering", "reporter"),
    "examples": ("codec", "demo", "fastapi", "flask", "life", "standalone", "testing"),
    "server": ("account", "folders", "main", "reaper"),
    "store/adapters": ("binding", "kinds", "synchronous"),
}


def once() -> list[str]:
    """The paths of ONCE."""
    of_files = [f"tests/{folder}/test_{name}.py" for folder, names in ONCE.items() for name in names if folder != "."]
    return [*(f"tests/{folder}" for folder in ONCE["."]), *of_files]


def at_once() -> list[str]:
    """What makes pytest run two tests more at once than there are cores, six at most: they wait half of the time."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return ["-n", str(min(cores + 2, 6)), "--dist", "worksteal"]


def read_times() -> dict[str, float]:
    """Read how many seconds the last whole run took on each server, by the server's title."""
    try:
        return json.loads(TIMES.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def estimate(on: Sequence[Target]) -> str:
    """Say how long `make test` will take."""
    times = read_times()
    seconds = [times.get(title, USUAL_S[place > 0]) for place, (title, _) in enumerate(on)]
    minutes = max(1, round(sum(seconds) / 60))
    source = "as last time" if all(title in times for title, _ in on) else "on two quiet cores"
    return f"this takes about {minutes} minute{'s' * (minutes > 1)}, {source}; `test-fast` stops at the first failure"


def pytest(on: Sequence[Target], arguments: Sequence[str], *, is_whole: bool = False) -> int:
    """Run the suite once on each server, and return the first exit code that is not zero.

    The time of a run of all tests (`is_whole`) is kept for the next estimate, unless the run was interrupted.
    """
    failed = 0
    for title, variables in on:
        say(f"tests on {title}")
        began = time.monotonic()
        code = run([PYTHON, "-m", "pytest", *arguments], **variables)
        if is_whole and code in (0, 1):
            TIMES.write_text(json.dumps({**read_times(), title: time.monotonic() - began}), encoding="utf-8")
        failed = failed or code
        if code in INTERRUPTED:  # the user does not want the next server either
            break
    return failed


# The commands, each with the words that follow it


def do_setup(arguments: Sequence[str]) -> int:
    """Make .venv with everything a developer needs; `setup demo` or `setup test` for less."""
    level = arguments[0] if arguments else "dev"
    if level not in LEVELS:
        raise Refusal(f"there is no set-up {level!r}: it is one of {', '.join(LEVELS)}.")
    setup(level)
    say(f"ready: {PYTHON} has what `{level}` needs")
    return 0


def do_demo(arguments: Sequence[str]) -> int:
    """Install asyncq with an embedded PostgreSQL, and run examples/demo."""
    setup("demo")
    return run([PYTHON, "-m", "examples.demo", *arguments])


def do_test(arguments: Sequence[str]) -> int:
    """Run the tests on the system's PostgreSQL, if there is one, and on the newest; words go to pytest."""
    setup("test")
    first, *others = servers()
    options = [*at_once(), *arguments]
    is_whole = not arguments
    if is_whole:
        say(estimate([first, *others]))
    code = pytest([first], options, is_whole=is_whole)
    if code in INTERRUPTED:
        return code
    code_of_others = pytest(others, [*options, *(f"--ignore={path}" for path in once())], is_whole=is_whole)
    return code or code_of_others


def do_test_fast(arguments: Sequence[str]) -> int:
    """Run the tests on one PostgreSQL, those that failed last time first; stop at the first failure."""
    setup("test")
    return pytest(servers()[:1], [*at_once(), "-q", "--failed-first", "--exitfirst", *arguments])


def do_test_slow(arguments: Sequence[str]) -> int:
    """Run the tests that take seconds, on the same servers, one at a time."""
    setup("test")
    return pytest(servers(), ["-m", "slow", *arguments])


def do_test_crash(arguments: Sequence[str]) -> int:
    """Run the tests that kill what they can, on one PostgreSQL; about a minute."""
    setup("test")
    return pytest(servers()[:1], [*at_once(), "-m", "crash", *arguments])


def do_soak(arguments: Sequence[str]) -> int:
    """Let chaos reign for so many minutes, 30 by default, with new seeds, and all else that is seeded; see soak.py."""
    minutes, *others = arguments or ["30"]
    try:
        float(minutes)
    except ValueError:
        raise Refusal(f"soak lasts for a number of minutes, not {minutes!r}: make soak MINUTES=30") from None
    setup("test")
    [(title, server), *_] = servers()
    say(f"soak on {title}")
    return run([PYTHON, "-m", "tests.crash.soak", minutes, *others], **server)


def do_test_mutants(arguments: Sequence[str]) -> int:
    """Plant bugs, one at a time, and see each one found; words choose among them by their names."""
    setup("test")
    [(_, server), *_] = servers()
    return run([PYTHON, "-m", "tests.crash.mutants", *arguments], **server)


def do_lint(_arguments: Sequence[str]) -> int:
    """Check style, format and layers."""
    setup("dev")
    return all_of(lint_steps())


def do_types(_arguments: Sequence[str]) -> int:
    """Check the types: pyright over the package, mypy over tests/typing."""
    setup("dev")
    return all_of(types_steps())


def do_check(_arguments: Sequence[str]) -> int:
    """Run every check that needs no server: lint, types, the rules of the house."""
    setup("dev")
    house = ("tests/house", [PYTHON, "-m", "pytest", "-q", "--tb=short", "tests/house"])
    return all_of([*lint_steps(), *types_steps(), house])


def do_fmt(_arguments: Sequence[str]) -> int:
    """Format the code, and mend what ruff can mend by itself."""
    setup("dev")
    return run([PYTHON, "-m", "ruff", "check", "--fix-only", "--quiet", "."]) or run(
        [PYTHON, "-m", "ruff", "format", "."]
    )


def benchmark(name: str, arguments: Sequence[str]) -> int:
    """Run one of the programs below benchmarks."""
    if not (ROOT / "benchmarks").exists():
        raise Refusal("there are no benchmarks in this checkout.")
    setup("test")
    return run([PYTHON, "-m", f"benchmarks.{name}", *arguments])


def do_bench(arguments: Sequence[str]) -> int:
    """Measure asyncq beside its peers; words go to benchmarks/suite."""
    return benchmark("suite", arguments)


def do_bench_quick(arguments: Sequence[str]) -> int:
    """Measure asyncq alone on little work, beside the least that there can be; under two minutes."""
    return do_bench(["--quick", *arguments])


def do_bench_compare(arguments: Sequence[str]) -> int:
    """Compare two result files, the older one first; 1 if a figure became worse."""
    return do_bench(["--compare", *arguments])


def do_bench_scale(arguments: Sequence[str]) -> int:
    """Measure how cost grows with jobs, workers, queues and payloads; words go to benchmarks/scale."""
    return benchmark("scale", arguments)


def do_bench_seeds(arguments: Sequence[str]) -> int:
    """Measure start and stop, 20,000 jobs by 4 processes of 10 slots, and latency."""
    return benchmark("seeds", arguments)


def do_profile(arguments: Sequence[str]) -> int:
    """Print where the time of a job goes, by part of the worker and of the server."""
    return benchmark("profile", arguments)


def do_schema(arguments: Sequence[str]) -> int:
    """Write the golden dump of the schema again."""
    setup("test")
    return run([PYTHON, "-m", "tools.schema", *arguments])


def do_completion(arguments: Sequence[str]) -> int:
    """Write the completions of shells, and the help of the command, again."""
    setup("test")
    return run([PYTHON, "-m", "tools.completion", *arguments])


def do_release(arguments: Sequence[str]) -> int:
    """Keep this checkout as a release, for the tests of upgrades: `release 0.2.0`."""
    setup("test")
    return run([PYTHON, "-m", "tools.release", *arguments])


def do_build(_arguments: Sequence[str]) -> int:
    """Build the wheel and the sdist into dist/."""
    setup("test")
    shutil.rmtree(ROOT / "dist", ignore_errors=True)
    return run([PYTHON, "-m", "hatchling", "build", "-d", "dist"])


def do_clean(_arguments: Sequence[str]) -> int:
    """Remove .venv and everything else that was made here."""
    check_venv_is_ours()
    made = [ROOT / name for name in CACHES]
    for top in ("asyncq", "benchmarks", "examples", "tests", "tools"):
        made.extend((ROOT / top).rglob("__pycache__"))
    for folder in made:
        if folder.is_dir():
            shutil.rmtree(folder)
    say("clean")
    return 0


def lint_steps() -> list[Step]:
    """The steps of `lint`."""
    return [
        ("ruff check", [PYTHON, "-m", "ruff", "check", "."]),
        ("ruff format --check", [PYTHON, "-m", "ruff", "format", "--check", "."]),
        ("import-linter", [VENV / "bin" / "lint-imports", "--no-logo"]),
    ]


def types_steps() -> list[Step]:
    """The steps of `types`."""
    return [
        ("pyright", [PYTHON, "-m", "pyright"]),
        # Its files hold lines that are wrong on purpose: the test runs mypy and pyright, and knows which.
        ("the typing tests", [PYTHON, "-m", "pytest", "-q", "tests/typing"]),
    ]


def all_of(steps: Sequence[Step]) -> int:
    """Run every step, also after one failed."""
    failed = [what for what, command in steps if not run_quietly(what, command)]
    say(f"failed: {', '.join(failed)}" if failed else "all checks passed")
    return 1 if failed else 0


COMMANDS: dict[str, Callable[[Sequence[str]], int]] = {
    name[len("do_") :].replace("_", "-"): function
    for name, function in list(globals().items())
    if name.startswith("do_")
}


def main(words: Sequence[str]) -> int:
    """Carry out one command."""
    if not words or words[0] not in COMMANDS:
        print("usage: python3 tools/x.py COMMAND [WORDS...]\n")
        for name, function in COMMANDS.items():
            print(f"  {name:<15}{(function.__doc__ or '').strip()}")
        return 0 if words and words[0] in {"-h", "--help", "help"} else 2
    try:
        return COMMANDS[words[0]](words[1:])
    except Refusal as sentence:
        say(str(sentence))
    except KeyboardInterrupt:
        say("interrupted")
        return 130
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
