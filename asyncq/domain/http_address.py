"""The address at which a worker answers probes and shows its metrics."""

import re
from typing import Any, Self

import msgspec

from asyncq.domain.errors import ConfigurationError

LAST_PORT = 65535
_TEXT = re.compile(r"(?:\[([0-9A-Fa-f:.%\w]+)\]|([^\s:/\[\]]+)):(\d{1,5})", re.ASCII)


class HttpAddress(msgspec.Struct, frozen=True):
    """A host and a port; port 0 is any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def shifted(self, by: int) -> Self:
        """The address with a higher port; port 0 stays. ConfigurationError if there is no such port."""
        if not self.port:
            return self
        if self.port + by > LAST_PORT:
            raise ConfigurationError(f"http: worker {by + 1} of the group would need port {self.port + by}")
        return type(self)(self.host, self.port + by)


def http_address(given: Any) -> HttpAddress:
    """Read `127.0.0.1:8081` or `[::1]:8081`; raises ConfigurationError."""
    found = _TEXT.fullmatch(given) if isinstance(given, str) else None
    if found is None or int(found[3]) > LAST_PORT:
        raise ConfigurationError(f"http must be the text HOST:PORT, such as '127.0.0.1:8081', got {given!r}")
    return HttpAddress(found[1] or found[2], int(found[3]))
