"""The promises of docs/guarantees.md name the tests that prove them: these are there, and each promise has one."""

import re
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
PAGE = (CHECKOUT / "docs" / "guarantees.md").read_text("utf-8")
PROOF = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


def is_there(path: str, name: str) -> bool:
    """Whether a file has a test of this name; without a name, whether the file exists."""
    file = CHECKOUT / path
    return file.exists() and (not name or f"def {name}(" in file.read_text("utf-8"))


def test_every_named_test_exists() -> None:
    """A renamed or removed test would leave its guarantee without a proof."""
    proofs = PROOF.findall(PAGE)

    assert proofs
    assert [] == [proof for proof in proofs if not is_there(*proof)]


def test_every_promise_has_a_proof() -> None:
    """A guarantee needs a test that proves it."""
    promises = re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]
    unproven = [text.partition("\n")[0] for text in promises if not PROOF.search(text)]

    assert ["When a part dies"] == unproven
