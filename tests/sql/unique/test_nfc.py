"""`_nfc`: Unicode's form NFC as Python has it, also where the server's own function is wrong."""

import unicodedata
from collections.abc import Sequence
from random import Random

import pytest

from tests.support.json_texts import ASSIGNED, CHANGING
from tests.support.session import Session
from tests.support.twins import differences, outcomes


async def assert_nfc(sql: Session, texts: Sequence[str]) -> None:
    """Both sides have the same result."""
    expected = [unicodedata.normalize("NFC", text) for text in texts]

    assert [] == differences([*map(ascii, texts)], expected, await outcomes(sql, "asyncq._nfc(a1)", texts))


async def test_every_character_that_nfc_changes_is_changed_alike(sql: Session) -> None:
    """Each one is tested composed, decomposed, and followed by a mark."""
    apart = [unicodedata.normalize("NFD", char) for char in CHANGING]

    await assert_nfc(sql, [*CHANGING, *apart, *(text + "\u0301" for text in apart)])


async def test_u_11a7_behind_a_syllable_stays(sql: Session) -> None:
    """The server's own function swallows it: texts that differ would become the same."""
    syllables = [chr(code) for code in range(0xAC00, 0xD7A4, 28)]
    await assert_nfc(sql, [syllable + "\u11a7" for syllable in syllables])
    await assert_nfc(
        sql, ["\u11a7", "\u11a7\u11a7", "\u1100\u1161\u11a7", "\uac00\u11a7\u0301e\u0301\u11a7e\u0327\u0301"]
    )

    assert ["\uac00\u11a7"] == await outcomes(sql, "asyncq._nfc(a1)", ["\uac00\u11a7"])


async def test_jamo_are_composed_alike(sql: Session) -> None:
    """All pairs are tested, and all that may follow a syllable."""
    jamo = [chr(code) for code in range(0x1100, 0x1200)]

    await assert_nfc(sql, [before + after for before in [*jamo, "\uac00", "\uac01"] for after in jamo])


async def test_marks_are_ordered_alike(sql: Session) -> None:
    """A letter has up to six of them."""
    chance = Random()
    marks = [char for char in CHANGING if unicodedata.combining(char)]
    texts = [chance.choice("aeiouAy") + "".join(chance.choices(marks, k=chance.randint(1, 6))) for _ in range(10_000)]

    await assert_nfc(sql, texts)


@pytest.mark.slow
async def test_every_character_is_normalised_alike(sql: Session) -> None:
    """Each character of Unicode 14 is tested, alone and behind a letter with a mark."""
    await assert_nfc(sql, [*ASSIGNED, *("e\u0327" + char for char in ASSIGNED)])
