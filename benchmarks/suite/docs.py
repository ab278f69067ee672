"""Puts a result into the documentation: its table into docs/performance.md, its picture there and in the README."""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks.suite.picture import picture
from benchmarks.suite.places import ROOT
from benchmarks.suite.report import report
from benchmarks.suite.result import Result

PAGE = ROOT / "docs" / "performance.md"
PICTURE = ROOT / "docs" / "performance.svg"
README = ROOT / "README.md"
ALT = "asyncq beside other queues: jobs a second, bulk adds, latency"


def publish(result: Result, source: Path) -> None:
    """Write the page, the picture and the README.

    Args:
        result: The result.
        source: Its file, which the page names.
    """
    PICTURE.write_text(picture(result))
    origin = f"From `benchmarks/results/{source.name}`:"
    body = f"![{ALT}](performance.svg)\n\n{origin} {report(result)}"
    PAGE.write_text(replaced(PAGE.read_text(), "result", body))
    README.write_text(replaced(README.read_text(), "picture", f"![{ALT}](docs/performance.svg)\n"))


def replaced(text: str, part: str, body: str) -> str:
    """A text with another body between the comments that mark this part.

    Raises:
        ValueError: They are not there.
    """
    begin, end = f"<!-- {part} -->\n", f"<!-- end of {part} -->"
    made, count = re.subn(f"{begin}.*?{end}", lambda _: f"{begin}{body}{end}", text, flags=re.DOTALL)
    if count != 1:
        raise ValueError(f"there is no one place for {part}: {count}")
    return made
