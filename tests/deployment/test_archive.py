"""asyncq imported from a zip file, which a wheel is."""

import py_compile
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.cli import CHECKOUT, asyncq, error_of, write
from tests.support.example_program import fresh_database

HELLO = """
from asyncq import task

@task
async def hello(name: str) -> None:
    print("hello", name, flush=True)
"""

ROLES = ("--worker", "zip_worker", "--enqueuer", "zip_enqueuer")
WHERE = "import asyncq; print(asyncq.__file__)"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A freshly built wheel."""
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=CHECKOUT, check=True, capture_output=True)
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def compiled(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the wheel with compiled modules. Without them each process would compile all that it imports."""
    folder = tmp_path_factory.mktemp("compiled")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(folder / "files")
    copy = folder / "asyncq.zip"
    with zipfile.ZipFile(copy, "w") as new:
        for path in sorted((folder / "files").rglob("*")):
            name = str(path.relative_to(folder / "files"))
            if path.suffix == ".py":
                module = str(path.with_suffix(".pyc"))
                # Nothing else is compared: the dates in a zip file are rounded.
                mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
                py_compile.compile(str(path), cfile=module, doraise=True, invalidation_mode=mode)
                new.write(module, f"{name}c")
            if path.is_file():
                new.write(path, name)
    return copy


def without(archive: Path, folder: Path, part: str) -> Path:
    """A copy of an archive without the files whose path contains the part."""
    copy = folder / "asyncq.zip"
    with zipfile.ZipFile(archive) as old, zipfile.ZipFile(copy, "w") as new:
        for name in old.namelist():
            if part not in name:
                new.writestr(name, old.read(name))
    return copy


async def test_a_whole_life_of_a_job_works_out_of_a_zip_file(dsn: str, wheel: Path, tmp_path: Path) -> None:
    """The SQL files are read from the place of the modules."""
    write(tmp_path, {"tasks/hello.py": HELLO})
    async with fresh_database(dsn) as database:
        options = {"PYTHONPATH": str(wheel), "DATABASE_URL": database}
        done = [
            await asyncq("migrate", cwd=tmp_path, **options),
            await asyncq("roles", *ROLES, cwd=tmp_path, **options),
            await asyncq("add", "hello", '{"name": "zip"}', cwd=tmp_path, **options),
            await asyncq("worker", "--once", cwd=tmp_path, **options),
            await asyncq("doctor", cwd=tmp_path, **options),
        ]

    assert [0] * len(done) == [each.returncode for each in done], [each.stderr for each in done]
    assert "hello zip" in done[3].stdout


def test_the_modules_are_those_of_the_zip_file(wheel: Path, tmp_path: Path) -> None:
    """Otherwise the test above would import the checkout."""
    where = subprocess.run(
        [sys.executable, "-c", WHERE], env={"PYTHONPATH": str(wheel)}, cwd=tmp_path, check=True, capture_output=True
    )

    assert f"{wheel}/asyncq/__init__.py" == where.stdout.decode().strip()


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ("sql/", ["migrate"]),
        ("sql/migrations/", ["migrate"]),
        ("sql/functions/", ["migrate"]),
        ("sql/queries/", ["add", "hello"]),
    ],
)
async def test_a_package_without_its_files_raises_a_clear_error(
    dsn: str, compiled: Path, tmp_path: Path, part: str, words: list[str]
) -> None:
    """A program that packs asyncq may leave out all files that are no modules."""
    async with fresh_database(dsn) as database:
        copy = without(compiled, tmp_path, f"asyncq/{part}")
        options = {"PYTHONPATH": str(copy), "DATABASE_URL": database}
        done = await asyncq(*words, "--json", cwd=tmp_path, **options)

    error = error_of(done.stderr)
    assert (2, "ConfigurationError") == (done.returncode, error["type"])
    assert "is missing in the package asyncq" in error["message"]


async def test_a_package_without_one_file_names_it(dsn: str, compiled: Path, tmp_path: Path) -> None:
    """A KeyError would show only the file's name."""
    async with fresh_database(dsn) as database:
        options = {"PYTHONPATH": str(without(compiled, tmp_path, "queries/add/may_add.sql")), "DATABASE_URL": database}
        await asyncq("migrate", cwd=tmp_path, **options)
        done = await asyncq("add", "hello", "--json", cwd=tmp_path, **options)

    error = error_of(done.stderr)
    assert (2, "ConfigurationError") == (done.returncode, error["type"])
    assert "sql/queries/may_add.sql is missing" in error["message"]


async def test_roles_without_their_file_say_so(dsn: str, compiled: Path, tmp_path: Path) -> None:
    """The file is read separately."""
    options = {"PYTHONPATH": str(without(compiled, tmp_path, "sql/roles.sql")), "DATABASE_URL": dsn}
    done = await asyncq("roles", *ROLES, cwd=tmp_path, **options)

    assert (2, True) == (done.returncode, "sql/roles.sql is missing" in done.stderr)


async def test_a_command_without_its_module_raises_a_clear_error(compiled: Path, tmp_path: Path) -> None:
    """Packers follow imports, but the modules of commands are found by their names."""
    done = await asyncq("migrate", cwd=tmp_path, PYTHONPATH=str(without(compiled, tmp_path, "cli/migrate")))

    assert (2, True) == (done.returncode, "the module asyncq.cli.migrate is missing" in done.stderr)
