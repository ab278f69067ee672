"""What can go wrong with a throw-away server.

AsyncqError
├── ServerBinariesNotFound   install PostgreSQL, or say where it is
└── ServerFailed             read the server's own words, kept in `log`
"""

from asyncq.domain.errors import AsyncqError


class ServerBinariesNotFound(AsyncqError):
    """No PostgreSQL was found to start a server with."""


class ServerFailed(AsyncqError):
    """PostgreSQL was found, but it did not do what it was asked to do.

    Args:
        message: What was asked for, and what came of it.
        log: The last lines that the server wrote, or an empty string.
    """

    def __init__(self, message: str, log: str = "") -> None:
        super().__init__(f"{message}\n{log}" if log else message)
        self.log = log
