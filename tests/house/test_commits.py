"""The subjects of commits: an imperative with a capital, at most 72 characters, and no period."""

import re
import subprocess
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]

LAST_UNCHECKED = "4dc5b6ecb653"
"""History before this rule stays as it is: only the commits after this one are checked."""

LONGEST = 72
FIRST_WORD = re.compile(r"[A-Z][a-z]+(?=\s)")
INFLECTED = re.compile(r".*(?:(?<!e)ed|ing|(?<!s)s)")
IMPERATIVES = {"Embed", "Shed", "Wed", "Bring", "Ping", "Ring", "String", "Sing", "Focus", "Bias"}
"""Imperatives that look like `Added`, `Adding` or `Adds`."""

OTHER_WORDS = {"A", "An", "The", "This", "That", "It", "We", "No", "Not", "New", "More", "Less", "Some", "When", "In"}


def faults(subject: str) -> list[str]:
    """Name the rules that the subject of a commit breaks."""
    first = FIRST_WORD.match(subject)
    word = first[0] if first else ""
    is_imperative = word in IMPERATIVES or (word and word not in OTHER_WORDS and not INFLECTED.fullmatch(word))
    return [
        *([] if is_imperative else ["no imperative with a capital"]),
        *([f"{len(subject)} characters"] if len(subject) > LONGEST else []),
        *(["a period at the end"] if subject.endswith(".") else []),
    ]


def git(*words: str) -> str:
    """Run git in the checkout; returns its output."""
    return subprocess.run(["git", *words], cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout


def new_subjects() -> list[str]:
    """Read the subjects after `LAST_UNCHECKED`, without merges; skip the test where git cannot read them."""
    try:
        # An unpacked archive inside another repository is no checkout of its own.
        top = git("rev-parse", "--show-toplevel").strip()
        if Path(top).resolve() != CHECKOUT.resolve():
            pytest.skip("this folder is no checkout of git: there are no commits to check")
        git("merge-base", "--is-ancestor", LAST_UNCHECKED, "HEAD")
    except FileNotFoundError:
        pytest.skip("git is not installed")
    except subprocess.CalledProcessError:
        pytest.skip(f"this folder is no checkout of git, or a shallow one without the commit {LAST_UNCHECKED}")
    return git("log", "--no-merges", "--format=%s", f"{LAST_UNCHECKED}..HEAD").splitlines()


def test_each_new_commit_has_a_good_subject() -> None:
    """A list of subjects is how most readers see history."""
    assert {} == {subject: found for subject in new_subjects() if (found := faults(subject))}


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        ("Add a check", []),
        ("Process less, and embed it", []),
        ("Need a row", []),
        ("Bring it back", []),
        ("Add " + "x" * 69, ["73 characters"]),
        ("Add a check.", ["a period at the end"]),
        ("add a check", ["no imperative with a capital"]),
        ("Adds a check", ["no imperative with a capital"]),
        ("Added a check", ["no imperative with a capital"]),
        ("Adding a check", ["no imperative with a capital"]),
        ("The check", ["no imperative with a capital"]),
        ("WIP", ["no imperative with a capital"]),
        ("fix: a check", ["no imperative with a capital"]),
        ("", ["no imperative with a capital"]),
    ],
)
def test_faults_of_a_subject_are_named(subject: str, expected: list[str]) -> None:
    """A rule whose check sees nothing is no rule."""
    assert expected == faults(subject)
