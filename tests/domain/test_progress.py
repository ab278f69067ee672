"""The arguments of `ctx.progress`: too much is cut, and nonsense is refused."""

from fractions import Fraction
from typing import Any

import pytest

from asyncq.domain.progress import MAX_NOTE, Report, check_report


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ((3, 10, "page 3"), Report(3.0, 10.0, "page 3")),
        ((0.5, 1, None), Report(0.5, 1.0, None)),
        ((7, None, None), Report(7.0, None, None)),
        ((Fraction(1, 2), None, None), Report(0.5, None, None)),
        ((11, 10, None), Report(10.0, 10.0, None)),
        ((-1, 10, None), Report(0.0, 10.0, None)),
        ((5, -1, None), Report(0.0, 0.0, None)),
        ((0, 0, ""), Report(0.0, 0.0, "")),
        ((1, 1, "a" * MAX_NOTE + "b"), Report(1.0, 1.0, "a" * MAX_NOTE)),
        ((1, 1, "a\0b\ud800"), Report(1.0, 1.0, "a\\x00b\\ud800")),
        ((1, 1, "\0" * MAX_NOTE), Report(1.0, 1.0, "\\x00" * (MAX_NOTE // 4))),
    ],
)
def test_a_report_is_cut_to_what_can_be_stored(given: tuple[Any, ...], stored: Report) -> None:
    """A wrong estimate of the total, or a long note, must not fail a job."""
    assert stored == check_report(*given)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (("3", None, None), TypeError, r"done must be a number \(int or float\), got str"),
        ((True, None, None), TypeError, r"done must be a number \(int or float\), got bool"),
        ((1, "9", None), TypeError, r"total must be a number \(int or float\), got str"),
        ((1, 9, 5), TypeError, "note must be a str or None, got int"),
        ((float("nan"), None, None), ValueError, "done must be a finite number, got nan"),
        ((1, float("inf"), None), ValueError, "total must be a finite number, got inf"),
        ((10**400, None, None), ValueError, "done must be at most 1e308, got a larger int"),
    ],
)
def test_a_report_that_has_no_meaning_is_refused(given: tuple[Any, ...], error: type[Exception], message: str) -> None:
    """It is a mistake in the handler, which its first run shows."""
    with pytest.raises(error, match=f"^{message}$"):
        check_report(*given)
