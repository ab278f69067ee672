"""The release before this one is kept, and its migrations are frozen: nobody edits what others have run."""

import re
from pathlib import Path

import pytest

from asyncq.store.migrate import migrations
from tools.release import CHECKOUT, LARGEST, VERSION, build, checksums, contents, edited, kept, main, sql_files

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
    """A version as what can be compared; one under development comes before its release, and after the one before."""
    return [int(number) for number in re.findall(r"\d+", version.partition(".dev")[0])]


def test_one_release_is_kept_and_it_is_the_one_before_this() -> None:
    """Without it nothing would be known of upgrades: that is a failure, no reason to skip."""
    (sdist,) = kept()
    version = version_of((CHECKOUT / "pyproject.toml").read_text("utf-8"))
    before = sdist.name.removeprefix("asyncq-").removesuffix(".tar.gz")

    assert sdist.stat().st_size < LARGEST
    assert numbers(before) < numbers(version)
    assert f"\n## {before}\n" in (CHECKOUT / "CHANGELOG.md").read_text("utf-8")


def test_a_released_migration_is_never_edited(released: dict[str, bytes]) -> None:
    """Databases on which it has run would not get the change; write another migration."""
    frozen = [path for path in released if path.startswith("sql/migrations/")]

    assert frozen
    assert [] == edited(released)


def test_changed_functions_come_with_a_migration(released: dict[str, bytes]) -> None:
    """Else `migrate` of the older release, on a database of the newer one, would put its bodies over the newer ones."""
    before, now = (checksums(files, "sql/functions/") for files in (released, sql_files()))
    newest = max(path for path in released if path.startswith("sql/migrations/"))
    changed = sorted(path for path in {*before, *now} if before.get(path) != now.get(path))

    assert not changed or migrations()[-1].name > Path(newest).stem, f"{changed}: add a migration, if only a comment"


def test_an_edited_and_a_lost_migration_are_found(released: dict[str, bytes]) -> None:
    """The comparison is not blind."""
    more = {"sql/migrations/000001_names.sql": b"edited", "sql/migrations/000000_lost.sql": b"lost"}

    assert more.keys() <= {*edited(released | more)}


def test_a_release_is_built_from_the_checkout_with_what_a_worker_needs(
    tmp_path: Path, released: dict[str, bytes]
) -> None:
    """The same files each time, under the version that was asked for."""
    files = contents(build("9.8.7", tmp_path))
    tops = {path.partition("/")[0] for path in files}

    assert {"asyncq", "sql", "pyproject.toml", "README.md", "LICENSE", "PKG-INFO"} == tops
    assert "9.8.7" == version_of(files["pyproject.toml"].decode())
    assert checksums(sql_files(), "sql/") == checksums(files, "sql/")
    assert [] == [path for path in files if re.search(r"__pycache__|/testing/|/server/", path)]


@pytest.mark.parametrize("words", [[], ["next"], ["1.0", "2.0"], ["0.2.0.dev0"]], ids=" ".join)
def test_a_release_has_a_number(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Three of them; nothing is written else."""
    before = kept()

    assert (2, before) == (main(words), kept())
    assert NEXT in capsys.readouterr().err
