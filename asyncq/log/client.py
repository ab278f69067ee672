"""The sentences of clients, which have no observers."""

import logging


def say_that_waits_poll(reason: str) -> None:
    """Log that a client asks for the ends of jobs, because it receives no notifications."""
    logging.getLogger("asyncq").warning("a client asks every 0.5 s whether awaited jobs have ended: %s", reason)
