"""Two releases: the previous one, installed from its sdist, and the next one, with more migrations."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import msgspec
import pytest
from anyio.to_thread import run_sync

from asyncq.store import migrate as module
from asyncq.store.database import Database
from asyncq.store.migrate import Report, Say, migrate, migrations
from tests.support import cli
from tools.release import kept

CHECKOUT = Path(__file__).parents[2]
FLEET = Path(__file__).parent / "fleet"
NEWEST = migrations()[-1].id
PIP = ("install", "--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check")


class Release(msgspec.Struct, frozen=True):
    """A release that can be run.

    Attributes:
        python: The interpreter of its environment.
        place: The folder that holds its package.
        sql: The folder of its SQL.
    """

    python: Path
    place: Path
    sql: Path

    @property
    def name(self) -> str:
        """The name that its code writes into the table of runs."""
        return str(self.place)

    def texts(self, kind: str) -> dict[str, str]:
        """Its SQL files of a kind, as `store.statements.texts` reads them."""
        return {path.stem: path.read_text("utf-8") for path in sorted((self.sql / kind).rglob("*.sql"))}

    def _environment(self, schema: str) -> dict[str, str]:
        path = os.pathsep.join([str(self.place), str(FLEET)])
        return {**cli.environment(), "PYTHONPATH": path, "PYTHONSAFEPATH": "1", "SCHEMA": schema}

    @contextmanager
    def started(self, log: Path, schema: str, *words: str) -> Generator[cli.Started]:
        """Start its `asyncq words`, in the folder of the log; it is killed if it still runs at the end of the block."""
        with log.open("wb") as output:
            process = subprocess.Popen(
                [self.python, "-m", "asyncq", *words],
                cwd=log.parent,
                env=self._environment(schema),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            yield cli.Started(process, log)
        finally:
            process.kill()
            process.wait(cli.LIMIT_S)

    async def runs(self, schema: str, *words: str) -> "subprocess.CompletedProcess[str]":
        """Run its Python with these words to the end."""
        return await run_sync(
            partial(
                subprocess.run,
                [self.python, *words],
                env=self._environment(schema),
                capture_output=True,
                text=True,
                timeout=cli.LIMIT_S,
            )
        )


def install(folder: Path) -> None:
    """Install the release before this one into an environment of its own, with the dependencies of ours.

    Args:
        folder: Where to make it.

    Raises:
        ValueError: There is no sdist of it, or more than one.
        subprocess.CalledProcessError: It could not be installed.
    """
    (sdist,) = kept()
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    release = installed(folder)
    # Path files of ours are not read, for example that of this checkout: asyncq itself can only be the old one.
    (release.place / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    kept_names = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PIP_TARGET")}
    subprocess.run([sys.executable, "-m", "pip", "--python", release.python, *PIP, sdist], check=True, env=kept_names)


def installed(folder: Path) -> Release:
    """The release that was installed there."""
    (packages,) = folder.glob("lib/python*/site-packages")
    return Release(folder / "bin" / "python", packages, packages / "asyncq" / "sql")


def next_release(folder: Path, *texts: str) -> Release:
    """The checkout with more migrations, as if it were the release after this one.

    Args:
        folder: An empty one, in which it is put together.
        *texts: The migrations, the first one after the newest of the checkout.
    """
    (folder / "asyncq").symlink_to(CHECKOUT / "asyncq")
    shutil.copytree(CHECKOUT / "sql", folder / "sql")
    for number, text in enumerate(texts, NEWEST + 1):
        (folder / "sql" / "migrations" / f"{number:06}_later.sql").write_text(text)
    return Release(Path(sys.executable), folder, folder / "sql")


async def apply(release: Release, database: Database, say: Say = lambda _: None) -> Report:
    """Migrate to a release, in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "texts", release.texts)
        return await migrate(database, say)


def version_of(sdist: Path) -> str:
    """The version in the name of an sdist."""
    found = re.fullmatch(r"asyncq-(.+)\.tar\.gz", sdist.name)
    assert found
    return found[1]
