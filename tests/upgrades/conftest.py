"""Fixtures of the tests of upgrades: the old release, the next one, and a schema that the old one has made."""

import fcntl
import os
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from asyncq.store.database import Database
from tests.support.cli import Started
from tests.support.session import Session, session
from tests.support.waiting import wait_until
from tests.upgrades.releases import Release, apply, install, installed, next_release

RUNS = """
create table asyncq.runs (
  id int generated always as identity, job_id bigint not null, place text not null, what text not null)
"""
CLOSE = "select pg_terminate_backend(pid) from pg_catalog.pg_stat_activity where application_name ^@ $1"

Later = Callable[..., Release]
StartWorker = Callable[..., AbstractContextManager[Started]]


@pytest.fixture(scope="session")
def old(tmp_path_factory: pytest.TempPathFactory) -> Release:
    """The previous release, installed once for a run by the first of the parallel processes that needs it."""
    base = tmp_path_factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with (base / "old_release.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = base / "old_release.done"
        if not done.exists():
            install(base / "old_release")
            done.touch()
    return installed(base / "old_release")


@pytest.fixture
def later(tmp_path: Path) -> Later:
    """Makes the next release: the checkout with these migrations."""

    def make(*texts: str) -> Release:
        folder = tmp_path / "next"
        folder.mkdir()
        return next_release(folder, *texts)

    return make


@pytest.fixture
async def sql(dsn: str, old: Release) -> AsyncIterator[Session]:
    """A session on a schema that the old release made, with a table of runs."""
    async with session(dsn, f"t_{secrets.token_hex(6)}") as opened:
        try:
            await apply(old, Database(dsn, opened.schema))
            await opened.execute(RUNS)
            yield opened
        finally:
            # Processes that were killed may have left statements that still run: a drop could meet them in a deadlock.
            await wait_until(lambda: none_is_connected(opened), description="the schema's connections to be closed")
            await opened.execute("set client_min_messages = warning; drop schema if exists asyncq cascade")


async def none_is_connected(sql: Session) -> bool:
    """End what is connected on behalf of the schema; whether nothing was."""
    return not await sql.values(CLOSE, f"{sql.schema} ")


@pytest.fixture
def database(dsn: str, sql: Session) -> Database:
    """The database of that schema."""
    return Database(dsn, sql.schema)


@pytest.fixture
def start_worker(dsn: str, sql: Session, tmp_path: Path) -> StartWorker:
    """Starts a worker of a release as a process; its log is named after it."""

    def start(release: Release, name: str, *words: str) -> AbstractContextManager[Started]:
        common = ("worker", "--tasks", "fleet", "--dsn", dsn, "--schema", sql.schema, "--poll", "60")
        return release.started(tmp_path / f"{name}.log", sql.schema, *common, *words)

    return start
