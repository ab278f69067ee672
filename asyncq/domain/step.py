"""A step of a job, as others read it."""

from datetime import datetime

import msgspec


class Step(msgspec.Struct, frozen=True):
    """A step of a job that is done.

    Attributes:
        name: The name that the handler gave it.
        at: When it was stored, by the server's clock.
    """

    name: str
    at: datetime
