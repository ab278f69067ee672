"""Options that were not given: their values in `ASYNCQ_*`, then in `[tool.asyncq]` of the nearest `pyproject.toml`."""

import argparse
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast
from urllib.parse import unquote

from asyncq.domain.hints import hint

FILE = "pyproject.toml"
DEFAULT = "default"
DATABASE = ("DATABASE_URL", "PGSERVICE", "PGHOST", "PGDATABASE")  # They name the database, in this order.
OF_DATABASE = ("dsn", "listen-dsn")

_YES, _NO = ("1", "true", "yes", "on"), ("0", "false", "no", "off")
_PASSWORD = re.compile(r"//[^/?#@]*:[^?#]*@|(?:^|[\s?&])(?:ssl)?password\s*=", re.IGNORECASE)


class SettingRefused(Exception):
    """A value that cannot be used; the message names where it is."""


class Found(NamedTuple):
    """The value of a setting, and where it is."""

    value: Any
    source: str


class Setting:
    """An option that settings have too.

    Attributes:
        name: Its name, such as `log-level`, which is `ASYNCQ_LOG_LEVEL` in the environment.
        action: The option of a parser, which leaves the namespace alone if it is not given.
        default: The value if no place has one.
    """

    def __init__(self, name: str, action: argparse.Action) -> None:
        self.name = name
        self.action = action
        self.default = action.default
        action.default = argparse.SUPPRESS

    @property
    def variable(self) -> str:
        """Its name in the environment."""
        return "ASYNCQ_" + self.name.upper().replace("-", "_")

    def find(self, known: Iterable[str]) -> Found:
        """Look in all places, of which the file may have the `known` names.

        SettingRefused if a value, or the file, cannot be used.
        """
        if text := os.environ.get(self.variable):
            return Found(self._read(text, self.variable), self.variable)
        if self.name == "dsn" and (variable := next(filter(os.environ.get, DATABASE), None)):
            return Found(None, variable)  # The store reads it.
        path, table = _table(known)
        if self.name not in table:
            return Found(self.default, DEFAULT)
        value = table[self.name]
        if self.name in OF_DATABASE and _PASSWORD.search(unquote(str(value))):
            place = "~/.pgpass or the environment"
            raise SettingRefused(
                f"{path}: {self.name} has a password, which does not belong into that file: use {place}"
            )
        return Found(self._read(value, f"{path}: {self.name}"), str(path))

    def _read(self, value: object, source: str) -> Any:
        action = self.action
        if action.nargs == 0:
            return _flag(value, source)
        if isinstance(action.default, list) or type(action).__name__ == "_AppendAction":
            return [str(one) for one in _several(value)]
        if isinstance(value, bool | dict):
            raise SettingRefused(f"{source}: {value!r} cannot be its value")
        text = ",".join(map(str, _several(value)))
        try:
            found = cast("Callable[[str], Any]", action.type or str)(text)
        except (argparse.ArgumentTypeError, ValueError) as error:
            raise SettingRefused(f"{source}: {error}") from error
        if action.choices is not None and found not in action.choices:
            raise SettingRefused(f"{source}: {text!r} is none of {', '.join(map(str, action.choices))}")
        return found


def _several(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else [*str(value).split(",")]


def _flag(value: object, source: str) -> bool:
    text = str(value).lower()
    if text not in (*_YES, *_NO):
        raise SettingRefused(f"{source}: {value!r} is neither true nor false")
    return text in _YES


def _table(known: Iterable[str]) -> tuple[Path | None, Mapping[str, Any]]:
    """The nearest file, and its table; both are empty without one."""
    path = next((path for path in _places() if path.is_file()), None)
    if path is None:
        return None, {}
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SettingRefused(f"{path} cannot be read: {error}") from error
    tools = document.get("tool")
    table: object = cast("dict[str, object]", tools).get("asyncq", {}) if isinstance(tools, dict) else {}
    if not isinstance(table, dict):
        raise SettingRefused(f"{path}: tool.asyncq is no table")
    names = cast("dict[str, Any]", table)
    for name in names:
        if name not in known:
            raise SettingRefused(f"{path}: [tool.asyncq] has an unknown name {name!r}{hint(name, sorted(known))}")
    return path, names


def _places() -> Iterator[Path]:
    here = Path.cwd()
    return (folder / FILE for folder in (here, *here.parents))
