"""Writes the texts of the command line that are kept in the package: completions of shells, and `asyncq --help`.

shtab makes the completions out of the parser, so that the package does not depend on it, and a shell that starts does
not wait for the import of the package.
"""

from __future__ import annotations

import os
from pathlib import Path

import shtab

from asyncq.cli import whole_parser

FOLDER = Path(__file__).parents[1] / "asyncq" / "cli" / "texts"
SHELLS = ("bash", "zsh", "fish")
HEADER = "# Made by shtab out of the parser of asyncq: python3 tools/x.py completion"


def texts() -> dict[str, str]:
    """The texts of the parser as it is now, by the names of their files."""
    parser = whole_parser()
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "80"
    try:
        found = {"help.txt": parser.format_help()}
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before
    for shell in SHELLS:
        lines = shtab.complete(parser, shell).splitlines()
        # Its comments name files that `asyncq completion` does not write. zsh reads the first line.
        first = lines[:1] if shell == "zsh" else []
        found[f"completion.{shell}"] = "\n".join([*first, HEADER, *_body(lines)]) + "\n"
    return found


def _body(lines: list[str]) -> list[str]:
    """What follows the comments at the beginning."""
    start = next(number for number, line in enumerate(lines) if line and not line.startswith("#"))
    return [line.rstrip() for line in lines[start:]]


def main() -> int:
    """Write them."""
    FOLDER.mkdir(exist_ok=True)
    for name, text in texts().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
