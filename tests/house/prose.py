"""What the tests of documents share: sentences, their lengths, and words for which the field has others."""

import re
from collections.abc import Iterator

LONGEST = 40
AVERAGE = 20

DIALECT = re.compile(
    r"\b(?:told|lookout|who(?:m)?ever|dear(?:er)?|merely|thereof|in vain|to be had|anew|bars?|hears? of|for dead"
    r"|com(?:e|es|ing) to(?= (?:the same|what|be|an? |its|one|\d|nothing|`))|came to"
    r"|(?:goes|go|gone|went) away|(?:is|are) of(?! use)|stands?(?! (?:for|by|in|still)\b)|stood(?! still))\b",
    re.IGNORECASE,
)
"""Words and phrases that the field has others for: reported, becomes, exists, is removed, belongs to, expensive."""

FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
NO_PROSE = re.compile(r"^(?: {4}.*|#.*|<!--.*|!\[.*)$", re.MULTILINE)
END = re.compile(r"(?<=[.!?])[*_)\"]*\s+(?=[\"'(*_`\[]*[A-Z0-9`\[])")
WORD = re.compile(r"[\w'’`./:<>=@-]*\w[\w'’`./:<>=@-]*")


def passages(text: str) -> Iterator[tuple[bool, str]]:
    """Yield each paragraph, item of a list and cell of a table, with whether it is a cell."""
    text = NO_PROSE.sub("", FENCED.sub("", text))
    text = re.sub(r"`[^`]*`", "`code`", re.sub(r"\]\([^)]*\)", "]", text))
    for block in re.split(r"\n\s*\n", text):
        if block.lstrip().startswith("|"):
            yield from ((True, cell.strip()) for row in block.splitlines() for cell in row.split("|") if cell.strip())
        else:
            items = re.split(r"^(?:[-*]|\d+\.) ", block, flags=re.MULTILINE)
            yield from ((False, " ".join(item.split())) for item in items)


def sentences(text: str) -> Iterator[tuple[bool, str]]:
    """Yield each sentence, with whether it stands in a table."""
    for is_cell, passage in passages(text):
        yield from ((is_cell, found) for found in END.split(passage) if WORD.search(found))


def length(sentence: str) -> int:
    """The words of a sentence; a piece of code is one."""
    return len(WORD.findall(sentence))


def faults(text: str) -> list[str]:
    """Say what a page breaks of the limits of sentences and words.

    The average is that of the sentences outside of tables, whose cells are often single words.
    """
    found = [(is_cell, sentence, length(sentence)) for is_cell, sentence in sentences(text)]
    plain = [words for is_cell, _, words in found if not is_cell]
    average = sum(plain) / max(len(plain), 1)
    return [
        *(f"{words} words: {sentence}" for _, sentence, words in found if words > LONGEST),
        *([f"{average:.1f} words on average"] if average > AVERAGE else []),
        *(f"dialect: {word[0]}: {sentence}" for _, sentence, _ in found for word in DIALECT.finditer(sentence)),
    ]
