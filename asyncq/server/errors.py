"""The errors of throw-away servers."""

from asyncq.domain.errors import AsyncqError


class ServerBinariesNotFound(AsyncqError):
    """No PostgreSQL was found to start a server with."""


class ServerFailed(AsyncqError):
    """PostgreSQL was found, but a step failed.

    Args:
        message: The step, and its result.
        log: The last lines that the server wrote, or an empty string.
    """

    def __init__(self, message: str, log: str = "") -> None:
        super().__init__(f"{message}\n{log}" if log else message)
        self.log = log
