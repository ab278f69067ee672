"""The published wheel and sdist contain every SQL file of the checkout unchanged."""

import hashlib
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]

Contents = dict[str, bytes]


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a freshly built wheel and sdist."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(folder)], cwd=CHECKOUT, check=True, capture_output=True
    )
    return folder


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Contents:
    """The files of the wheel."""
    (path,) = dist.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.fixture(scope="module")
def sdist(dist: Path) -> Contents:
    """The files of the sdist, without the name of its top folder."""
    (path,) = dist.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        members = [member for member in archive.getmembers() if member.isfile()]
        return {member.name.split("/", 1)[1]: archive.extractfile(member).read() for member in members}


def checksums(contents: Contents, below: str) -> dict[str, str]:
    """SHA-256 of each SQL file below a folder, by its path in that folder."""
    return {
        name.removeprefix(below): hashlib.sha256(content).hexdigest()
        for name, content in contents.items()
        if name.startswith(below) and name.endswith(".sql")
    }


@pytest.fixture(scope="module")
def checkout() -> Contents:
    """The SQL files of the checkout."""
    return {path.relative_to(CHECKOUT).as_posix(): path.read_bytes() for path in (CHECKOUT / "sql").rglob("*.sql")}


def test_the_wheel_contains_every_sql_file_unchanged(wheel: Contents, checkout: Contents) -> None:
    """sql/ is outside of the package in the checkout, but inside of it when installed."""
    assert checksums(checkout, "sql/") == checksums(wheel, "asyncq/sql/")


def test_the_sdist_contains_every_sql_file_unchanged(sdist: Contents, checkout: Contents) -> None:
    """Distributions build their packages from the sdist."""
    assert checksums(checkout, "sql/") == checksums(sdist, "sql/")


def test_the_wheel_has_its_marker_for_type_checkers(wheel: Contents) -> None:
    """Without py.typed, type checkers ignore every annotation."""
    assert "asyncq/py.typed" in wheel


def test_the_wheel_has_the_texts_of_the_command_line(wheel: Contents) -> None:
    """`asyncq completion` has no other source once it is installed."""
    texts = {path.name: path.read_bytes() for path in (CHECKOUT / "asyncq/cli/texts").iterdir()}

    assert texts == {name: wheel.get(f"asyncq/cli/texts/{name}") for name in texts}


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Contents) -> None:
    """A top-level `tests` or `tools` in site-packages would shadow those of other projects."""
    tops = {name.split("/")[0] for name in wheel if ".dist-info/" not in name}

    assert {"asyncq", "asyncq_command.py"} == tops
    assert [] == [name for name in wheel if "__pycache__" in name]


def test_the_sdist_has_the_files_that_its_tests_need(sdist: Contents) -> None:
    """Packagers want to run the tests."""
    assert {"pyproject.toml", "README.md", "LICENSE", "Makefile", "deploy/Dockerfile", "tools/x.py"} <= set(sdist)
    assert "tests/house/test_wheel.py" in sdist


def test_the_command_is_declared(wheel: Contents) -> None:
    """`asyncq` on the command line is one of the two faces."""
    (entry_points,) = (content for name, content in wheel.items() if name.endswith("entry_points.txt"))

    assert "asyncq = asyncq_command:main" in entry_points.decode()
