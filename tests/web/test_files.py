"""The files of the page: their size, their sources, their licences, and what they load."""

import hashlib
import re
import tomllib
from pathlib import Path

import pytest

STATIC = Path(__file__).parents[2] / "asyncq" / "web" / "static"
VENDOR = STATIC / "vendor"
FILES = tomllib.loads((VENDOR / "VENDOR.toml").read_text())["file"]
SCRIPTS = sorted(path for path in STATIC.rglob("*.js") if path.parent != VENDOR)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file["path"])
def test_a_file_of_another_project_is_as_it_was_published(file: dict[str, str]) -> None:
    """It has a name, a version and a licence, whose text is beside it."""
    assert file["sha256"] == hashlib.sha256((VENDOR / file["path"]).read_bytes()).hexdigest()
    assert {"name", "version", "licence", "source"} <= file.keys()
    assert (VENDOR / f"LICENSE-{file['name']}.txt").is_file()


def test_no_other_file_is_of_another_project() -> None:
    """Else its licence would be missing."""
    scripts = {path.name for path in VENDOR.iterdir() if path.suffix in (".js", ".css")}

    assert {file["path"] for file in FILES} == scripts


def test_each_reason_of_a_job_that_waits_has_a_heading() -> None:
    """Those of the guide; a name such as `partition_behind` says little."""
    guide = (Path(__file__).parents[2] / "docs" / "guide" / "administration.md").read_text()
    table = guide.partition("| reason | what the job waits for |")[2].partition("\n\n")[0]
    reasons = {name for row in table.splitlines() for name in re.findall(r"`(\w+)`", row.partition(" | ")[0])}
    words = (STATIC / "words.js").read_text().partition("REASONS = {")[2].partition("}")[0]

    assert reasons == set(re.findall(r"^  (\w+):", words, re.MULTILINE))


def test_all_files_together_are_small() -> None:
    """The first sight of the page must not wait for them."""
    assert sum(path.stat().st_size for path in STATIC.rglob("*") if path.is_file()) <= 250_000


def test_nothing_is_loaded_from_elsewhere() -> None:
    """The content policy would refuse it; without a policy it would tell another site who looks."""
    ours = [STATIC / "index.html", STATIC / "style.css", *SCRIPTS]
    loads = re.compile(r"""(?:src|href|from|import|url\(|fetch\()\s*=?\s*["'`]?(?:https?:)?//""")

    assert [] == [path.name for path in ours if loads.search(path.read_text())]
    assert "style=" not in (STATIC / "index.html").read_text()


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_script_imports_files_that_exist(script: Path) -> None:
    """There is no build that would find a wrong name."""
    for name in re.findall(r"""from "(\.[^"]+)";""", script.read_text()):
        assert (script.parent / name).is_file(), name
