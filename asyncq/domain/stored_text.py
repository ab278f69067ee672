"""Text that PostgreSQL can hold: neither U+0000 nor lone surrogates."""


def is_storable(text: str) -> bool:
    """Whether PostgreSQL can hold a text."""
    return text.isprintable() or not ("\0" in text or any("\ud800" <= char <= "\udfff" for char in text))


def escaped(text: str) -> str:
    """Escape the characters of a text that PostgreSQL cannot hold."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")
