"""Completions of shells and the help: kept in the package, and printed without its import."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from asyncq.cli import main
from tests.support.cli import asyncq, environment
from tools import completion

PROGRAM = "import sys; from asyncq_command import main; code = main(); print(*sorted(sys.modules), file=sys.stderr)"
HEAVY = {"anyio", "argparse", "asyncio", "asyncpg", "asyncq", "msgspec"}


def run_program(*words: str, **how: object) -> "subprocess.CompletedProcess[str]":
    """Run the program `asyncq`; the modules that were imported are its standard error."""
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *words], env=environment(), capture_output=True, text=True, **how
    )


@pytest.mark.parametrize("name", sorted(completion.texts()))
def test_the_texts_are_those_of_the_parser(name: str) -> None:
    """Run `make completion` after a change of an option. Versions of Python break the lines of the help differently."""
    made, kept = completion.texts()[name], (completion.FOLDER / name).read_text()

    assert made.split() == kept.split()


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["completion", "bash"], ["completion", "zsh"]], ids=" ".join)
def test_the_program_prints_them_without_the_package(words: list[str]) -> None:
    """A shell that starts, or a person who asks for help, does not wait for asyncpg. Modules are counted, not time."""
    done = run_program(*words)

    assert done.stdout == (completion.FOLDER / (f"completion.{words[1]}" if words[1:] else "help.txt")).read_text()
    assert set() == HEAVY & set(done.stderr.split())


@pytest.mark.parametrize("shell", completion.SHELLS)
async def test_python_m_asyncq_prints_the_same(shell: str) -> None:
    """It may be the only way, as in a zip file."""
    done = await asyncq("completion", shell)

    assert (0, (completion.FOLDER / f"completion.{shell}").read_text()) == (done.returncode, done.stdout)


def test_an_unknown_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """Also by the program, which leaves it to the package."""
    assert 2 == main(["completion", "tcl"])
    assert "invalid choice: 'tcl'" in capsys.readouterr().err
    assert "invalid choice: 'tcl'" in run_program("completion", "tcl").stderr


@pytest.mark.parametrize("words", [["--help"], ["completion", "zsh"]], ids=" ".join)
def test_an_output_that_is_full_ends_with_1(words: list[str]) -> None:
    """As with every command: the package writes the sentence. A short text stays in a buffer until it is flushed."""
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-c", "import sys; from asyncq_command import main; sys.exit(main())", *words],
            env=environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )

    assert (1, "asyncq: the output cannot be written: No space left on device\n") == (done.returncode, done.stderr)


BASH = """
source {file}
COMP_WORDS=({line} "") COMP_CWORD={place}
COMP_WORDS[{place}]={word}
_shtab_asyncq
echo "${{COMPREPLY[@]}}"
"""


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize(
    ("line", "word", "expected"),
    [
        ("asyncq", "work", "worker workers"),
        ("asyncq jobs", "ret", "retry"),
        ("asyncq worker", "--rel", "--reload"),
        ("asyncq worker --log-format", "j", "json"),
    ],
)
def test_bash_completes_commands_options_and_choices(line: str, word: str, expected: str) -> None:
    """The script is run by the shell that it is for."""
    script = BASH.format(file=completion.FOLDER / "completion.bash", line=line, word=word, place=len(line.split()))

    done = subprocess.run(["bash", "--norc", "-c", script], capture_output=True, text=True, env=os.environ)

    assert (expected, "") == (done.stdout.strip(), done.stderr)
