"""Reads libpq's service file. The driver would ignore a service that the file lacks."""

import configparser
import os
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from asyncq.domain.errors import ConfigurationError


def asked_by(dsn: str) -> dict[str, str]:
    """Return the parameters behind the `?` of a DSN; none if it cannot be read."""
    try:
        return {name: values[-1] for name, values in parse_qs(urlsplit(dsn).query).items()}
    except ValueError:
        return {}


def read_service(dsn: str) -> dict[str, str]:
    """Read the service that a DSN names; raises ConfigurationError for one that does not exist."""
    name = asked_by(dsn).get("service")
    if name is None:
        return {}
    path = Path(os.environ.get("PGSERVICEFILE", os.path.expanduser("~/.pg_service.conf")))
    # The driver reads this file by the same parser, and does not catch its errors.
    services = configparser.ConfigParser()
    try:
        services.read(path)
        found = dict(services.items(name)) if name in services.sections() else None
    except (configparser.Error, ValueError):
        # Without the cause: its text may hold a password.
        raise ConfigurationError(
            f"the service {name!r} cannot be looked up: {path} cannot be read as [service] and lines of key=value, "
            "each key once, % written as %%"
        ) from None
    if found is None:
        raise ConfigurationError(
            f"there is no service {name!r} in {path}; add [{name}] with host=, dbname=, user= to it, "
            "or let PGSERVICEFILE name another file"
        )
    return found
