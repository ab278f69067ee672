"""What sentences for people are made of."""

from collections.abc import Iterable

DEFAULT_SCHEMA = "asyncq"


def command(name: str, schema: str) -> str:
    """A command for this schema, such as `asyncq migrate --schema jobs`, for sentences that say what to run."""
    return f"asyncq {name}" if schema == DEFAULT_SCHEMA else f"asyncq {name} --schema {schema}"


def printable(text: str, kept: str = "") -> str:
    """Escape characters that cannot be printed, but for those in `kept`: names and errors may contain anything."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in kept else ascii(char)[1:-1] for char in text)


def plain(sentence: str) -> str:
    """A printable sentence that cannot pass for another record: further lines, as of a traceback, begin with blanks."""
    return printable(sentence, "\n").replace("\n", "\n    ")


def allow_all_rows(schema: str, tables: Iterable[str]) -> str:
    """Advice for the owner: how to turn off row level security on some tables of a schema."""
    statements = "; ".join(f"alter table {schema}.{name} disable row level security" for name in tables)
    return f"run as its owner: {statements}"
