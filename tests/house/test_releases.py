"""The release before this one is kept; once a version is published its migrations are frozen."""

import re
from pathlib import Path

import pytest

from tools import release
from tools.release import (
    CHECKOUT,
    IS_PUBLISHED,
    LARGEST,
    VERSION,
    build,
    checksums,
    contents,
    edited,
    kept,
    main,
    sql_files,
    unmarked,
)

NEXT = "python3 tools/x.py release"


@pytest.fixture(scope="module")
def released() -> dict[str, bytes]:
    """The files of the release before this one."""
    (sdist,) = kept()
    return contents(sdist)


def version_of(project: str) -> str:
    """The version in a pyproject.toml."""
    found = VERSION.search(project)
    assert found
    return found[1]


def numbers(version: str) -> list[int]:
    """A version as a list that can be compared. A development version comes before its release."""
    return [int(number) for number in re.findall(r"\d+", version.partition(".dev")[0])]


def test_one_release_is_kept_and_it_is_the_one_before_this() -> None:
    """Without it upgrades would not be tested, so this is a failure, not a skip."""
    (sdist,) = kept()
    version = version_of((CHECKOUT / "pyproject.toml").read_text("utf-8"))
    before = sdist.name.removeprefix("asyncq-").removesuffix(".tar.gz")

    assert sdist.stat().st_size < LARGEST
    assert numbers(before) < numbers(version)
    assert f"\n## {before}\n" in (CHECKOUT / "CHANGELOG.md").read_text("utf-8")


def test_the_migrations_of_the_release_before_are_those_of_the_checkout(released: dict[str, bytes]) -> None:
    """A published one is never edited: databases on which it has run would not get the change.

    Before that the kept release is rebuilt, or the tests of upgrades would begin with tables that no release makes.
    """
    version = kept()[0].name.removeprefix("asyncq-").removesuffix(".tar.gz")
    frozen = [path for path in released if path.startswith("sql/migrations/")]

    assert frozen
    assert [] == edited(released), "add a migration instead" if IS_PUBLISHED else f"run `{NEXT} {version}`"


def test_changed_functions_come_with_a_migration(released: dict[str, bytes]) -> None:
    """Otherwise `migrate` of an older release would replace the newer functions of a database by its own."""
    assert [] == unmarked(released), "add a migration, if only a comment"


def test_a_changed_function_is_found_once_a_version_is_published(
    released: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not count before, or if a migration is newer than the release."""
    newest = max(path for path in sql_files() if path.startswith("sql/migrations/"))
    edited_one = sql_files() | {"sql/functions/lost.sql": b"lost"}
    older = {path: text for path, text in edited_one.items() if path != newest}
    before = unmarked(edited_one)
    monkeypatch.setattr(release, "IS_PUBLISHED", True)

    assert ([], ["sql/functions/lost.sql"], []) == (before, unmarked(edited_one), unmarked(older))


def test_an_edited_and_a_lost_migration_are_found(released: dict[str, bytes]) -> None:
    """The comparison is not blind."""
    more = {"sql/migrations/000001_jobs.sql": b"edited", "sql/migrations/000000_lost.sql": b"lost"}

    assert more.keys() <= {*edited(released | more)}


def test_a_release_is_built_from_the_checkout_with_the_files_that_a_worker_needs(
    tmp_path: Path, released: dict[str, bytes]
) -> None:
    """The files are the same each time, under the requested version."""
    files = contents(build("9.8.7", tmp_path))
    tops = {path.partition("/")[0] for path in files}

    assert {"asyncq", "sql", "pyproject.toml", "README.md", "LICENSE", "PKG-INFO"} == tops
    assert "9.8.7" == version_of(files["pyproject.toml"].decode())
    assert checksums(sql_files(), "sql/") == checksums(files, "sql/")
    assert [] == [path for path in files if re.search(r"__pycache__|/testing/|/server/", path)]


@pytest.mark.parametrize("words", [[], ["next"], ["1.0", "2.0"], ["0.2.0.dev0"]], ids=" ".join)
def test_a_release_has_a_number(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The version has three numbers. Otherwise nothing is written."""
    before = kept()

    assert (2, before) == (main(words), kept())
    assert NEXT in capsys.readouterr().err
