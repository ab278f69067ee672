"""Functions for the processes of a pool, which import them by name."""

from typing import NoReturn

from asyncq import Discard, RetryAfter, Snooze


def be_throttled() -> NoReturn:
    """Give the verdict that another try may help."""
    try:
        raise ConnectionError("429 Too Many Requests")
    except ConnectionError as error:
        raise RetryAfter(600, "throttled") from error


def be_early() -> NoReturn:
    """Give the verdict that it is no failure."""
    raise Snooze(60)


def be_useless() -> NoReturn:
    """Give the verdict that no other try can help."""
    raise Discard("no use")


def be_healthy() -> int:
    """Do the work."""
    return 42
