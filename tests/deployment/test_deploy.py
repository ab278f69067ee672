"""The files of deploy/: they are read, and their commands are run, where no container engine is."""

import configparser
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import yaml
from anyio.to_thread import run_sync

from asyncq import Client
from tests.cli.test_reload import SAY
from tests.support.cli import CHECKOUT, LIMIT_S, Started, appears, environment, write
from tests.support.waiting import wait_until
from tests.support.web import free_ports

DEPLOY = CHECKOUT / "deploy"
INSTRUCTIONS = {"ARG", "FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "EXPOSE", "HEALTHCHECK", "ENTRYPOINT", "CMD"}
PROGRAM = "import sys; from asyncq_command import main; sys.exit(main())"


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile, with their arguments."""
    lines = [line for line in (DEPLOY / "Dockerfile").read_text().splitlines() if line and not line.startswith("#")]
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in lines)]


def last(name: str) -> str:
    """The last instruction of this name: that of the image itself."""
    return [rest for each, rest in instructions() if each == name][-1]


def copied() -> list[tuple[str, str]]:
    """The paths that are copied out of the checkout, and where."""
    found = []
    for name, rest in instructions():
        if name == "COPY" and not rest.startswith("--from="):
            *sources, place = rest.split()
            found += [(source, source if place == "./" else place) for source in sources]
    return found


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as the image has it: built of the copied paths alone, and not from the checkout."""
    source, place = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("package")
    for name, target in copied():
        path = CHECKOUT / name
        (shutil.copytree if path.is_dir() else shutil.copy)(path, source / target)
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(place)],
        cwd=source,
        env=environment(PYTHONPATH=""),
        check=True,
        capture_output=True,
    )
    (wheel,) = place.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(place / "site")
    return place / "site"


@contextmanager
def run(package: Path, cwd: Path, *words: str, **more: str) -> Iterator[Started]:
    """Start the image's entry point with a command."""
    assert ["asyncq"] == json.loads(last("ENTRYPOINT"))
    log = cwd / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", PROGRAM, *words],
            cwd=cwd,
            env=environment(PYTHONPATH=str(package), **more),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        yield Started(process, log)
    finally:
        process.kill()
        process.wait(LIMIT_S)


async def outcome(package: Path, cwd: Path, *words: str, **more: str) -> int:
    """The exit code of a command that ends by itself."""
    with run(package, cwd, *words, **more) as process:
        return await process.end()


def test_each_instruction_is_known_and_each_path_exists() -> None:
    """No engine reads the file here, and a checkout changes."""
    stages = {rest.partition(" AS ")[2] for name, rest in instructions() if name == "FROM"} - {""}
    origins = [re.findall(r"--from=(\S+)", rest) for name, rest in instructions() if name == "COPY"]
    allowed = {line[1:] for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines() if line[0] == "!"}

    assert set() == {name for name, _ in instructions()} - INSTRUCTIONS
    assert [] == [source for source, _ in copied() if not (CHECKOUT / source).exists()]
    assert {source for source, _ in copied()} == allowed
    assert stages == {name for found in origins for name in found}


def test_the_image_is_slim_is_not_run_by_root_and_has_extras_that_exist() -> None:
    """A handler with a hole must not own the container."""
    extras = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    installed = re.search(r"'\.\[([a-z,]+)\]'", " ".join(rest for name, rest in instructions() if name == "RUN"))

    assert last("FROM").endswith("-slim")
    assert int(last("USER")) > 0
    assert installed is not None
    assert set(installed[1].split(",")) <= set(extras)


async def test_the_image_runs_mounted_tasks_and_its_health_check_finds_them_well(
    package: Path, dsn: str, client: Client, schema: str, tmp_path: Path
) -> None:
    """The commands are those of the file, with another folder and another port."""
    write(tmp_path, {"tasks/say.py": SAY.format("said")})
    port = str(free_ports(1))

    def here(word: str) -> str:
        return word.replace("/worker", str(tmp_path)).replace("8081", port)

    health, check = last("HEALTHCHECK").split(" CMD ")
    assert "--interval=" in health
    probe = json.loads(check)[1:]
    command = [here(word) for word in json.loads(last("CMD"))]
    assert 1 == await outcome(package, tmp_path, *map(here, probe))

    await client.add_job("say")
    variables = {"DATABASE_URL": dsn, "ASYNCQ_SCHEMA": schema}
    with run(package, tmp_path, *command, **variables) as process:
        await appears(tmp_path / "said")
        (elsewhere := tmp_path / "elsewhere").mkdir()

        async def is_well() -> bool:
            return 0 == await outcome(package, elsewhere, *map(here, probe))

        await wait_until(is_well, description="a worker that is well")
        process.signal(signal.SIGTERM)
        code = await process.end()

    assert 0 == code


async def test_the_image_migrates_and_runs_the_dashboard(package: Path, dsn: str, schema: str, tmp_path: Path) -> None:
    """As compose.yaml and k8s.yaml start them. An empty token must not open it to other machines."""
    variables = {"DATABASE_URL": dsn, "ASYNCQ_SCHEMA": schema}
    for words in (words for place, words in commands() if place.startswith("compose") and words[0] == "migrate"):
        assert 0 == await outcome(package, tmp_path, *words, **variables)

    found = [words for _, words in commands() if words[0] == "dashboard"]
    assert found
    for words in found:
        words = [word.replace("8080", "0") for word in words]
        assert 2 == await outcome(package, tmp_path, *words, ASYNCQ_DASHBOARD_TOKEN="", **variables)
        with run(package, tmp_path, *words, ASYNCQ_DASHBOARD_TOKEN="t" * 32, **variables) as process:
            await process.says("The dashboard is at ")
            process.signal(signal.SIGTERM)
            assert 0 == await process.end()


COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
OBJECTS: list[dict[str, Any]] = list(yaml.safe_load_all((DEPLOY / "k8s.yaml").read_text()))
PODS: dict[str, dict[str, Any]] = {
    f"{each['kind']} {each['metadata']['name']}": each["spec"]["template"]["spec"]
    for each in OBJECTS
    if "template" in each["spec"]
}


def unit() -> configparser.ConfigParser:
    """The unit of systemd."""
    found = configparser.ConfigParser(interpolation=None)
    found.optionxform = str  # type: ignore[assignment,method-assign]
    found.read(DEPLOY / "asyncq-worker.service")
    return found


def commands() -> list[tuple[str, list[str]]]:
    """The words after `asyncq` in all files, with the place of each."""
    program, *words = shlex.split(unit()["Service"]["ExecStart"])
    assert program.endswith("/bin/asyncq")
    return [
        ("Dockerfile", json.loads(last("CMD"))),
        ("service", words),
        *((f"compose {name}", each["command"]) for name, each in COMPOSE["services"].items() if "command" in each),
        *((name, container["args"]) for name, pod in PODS.items() for container in pod["containers"]),
    ]


@cache
def options_of(command: str) -> set[str]:
    """The options in the help of a command."""
    done = subprocess.run(
        [sys.executable, "-m", "asyncq", command, "--help"], env=environment(), capture_output=True, text=True
    )
    assert 0 == done.returncode, done.stderr
    return set(re.findall(r"(?<!\S)--?[a-z][a-z-]*", done.stdout))


@pytest.mark.parametrize(("place", "words"), commands(), ids=[place for place, _ in commands()])
async def test_each_command_and_option_exists(place: str, words: list[str]) -> None:
    """An option that was renamed would be noticed in production."""
    command, *rest = map(str, words)

    known = await run_sync(partial(options_of, command))

    assert [] == [word for word in rest if word.startswith("-") and word not in known]


def test_the_services_of_compose_hang_together() -> None:
    """A service that waits for another name would never start."""
    services = COMPOSE["services"]
    worker = services["worker"]

    assert [] == [name for each in services.values() for name in each.get("depends_on", ()) if name not in services]
    assert DEPLOY.parent == (DEPLOY / worker["build"]["context"]).resolve()
    assert (CHECKOUT / worker["build"]["dockerfile"]).is_file()
    (mounted,) = worker["volumes"]
    folder = re.fullmatch(r"\$\{TASKS:-(.+)\}:/worker/tasks:ro", mounted)
    assert folder is not None
    assert list((DEPLOY / folder[1]).glob("*.py"))
    assert "/worker/tasks" in json.loads(last("CMD"))
    assert {name for each in services.values() for name in each.get("volumes", ()) if name[0].isalpha()} == {
        f"{name}:/var/lib/postgresql" for name in COMPOSE["volumes"]
    }


def test_the_objects_of_kubernetes_hang_together() -> None:
    """Labels, ports and secrets are compared by name only, and nothing complains before a pod is missing."""
    for each in OBJECTS:
        if each["kind"] == "Deployment":
            assert each["spec"]["selector"]["matchLabels"] == each["spec"]["template"]["metadata"]["labels"]
    for pod in PODS.values():
        for container in pod["containers"]:
            ports = {port["name"]: port["containerPort"] for port in container.get("ports", ())}
            probes = [container[name] for name in ("livenessProbe", "readinessProbe") if name in container]
            asked = {(probe.get("httpGet") or probe["tcpSocket"])["port"] for probe in probes}
            assert asked <= set(ports)
            assert [] == [port for port in ports.values() if not any(str(port) in word for word in container["args"])]
            assert [{"secretRef": {"name": "asyncq"}}] == container["envFrom"]
    (service,) = (each for each in OBJECTS if each["kind"] == "Service")
    (scaled,) = (each for each in OBJECTS if each["kind"] == "ScaledObject")
    names = {each["metadata"]["name"]: each for each in OBJECTS if each["kind"] == "Deployment"}
    assert names[service["metadata"]["name"]]["spec"]["selector"]["matchLabels"] == service["spec"]["selector"]
    assert scaled["spec"]["scaleTargetRef"]["name"] in names


def test_a_stop_has_the_grace_period_and_30_s() -> None:
    """Otherwise SIGKILL ends jobs that may still finish."""
    pod = PODS["Deployment asyncq-worker"]
    (container,) = pod["containers"]
    grace = container["args"][container["args"].index("--grace") + 1]

    assert pod["terminationGracePeriodSeconds"] == int(grace.removesuffix("s")) + 30
    assert "55s" == COMPOSE["services"]["worker"]["stop_grace_period"]


async def test_the_autoscaler_asks_a_function_that_exists(db: asyncpg.Connection, client: Client, schema: str) -> None:
    """KEDA would scale to nothing."""
    (scaled,) = (each for each in OBJECTS if each["kind"] == "ScaledObject")
    (trigger,) = scaled["spec"]["triggers"]

    assert 0 == await db.fetchval(trigger["metadata"]["query"].replace("asyncq.", f"{schema}."))


def test_the_unit_is_one_that_systemd_knows(tmp_path: Path) -> None:
    """It ignores an unknown name, with a warning that nobody reads. Where it is not installed, less is checked."""
    found = unit()

    assert ["Unit", "Service", "Install"] == found.sections()
    assert ("notify", "mixed") == (found["Service"]["Type"], found["Service"]["KillMode"])
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        return
    text = (DEPLOY / "asyncq-worker.service").read_text().replace("/srv/app/venv/bin/asyncq", "/bin/true")
    path = write(tmp_path, {"asyncq-worker.service": text}) / "asyncq-worker.service"
    done = subprocess.run([analyze, "verify", "--man=no", str(path)], env=os.environ, capture_output=True, text=True)
    assert [] == [line for line in done.stderr.splitlines() if "asyncq-worker.service" in line]
