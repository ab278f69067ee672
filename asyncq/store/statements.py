"""Finds the SQL files, checks the schema's name, and renders the files for it.

In sql/ the word `asyncq` always means the schema, so each file is valid SQL. Rendering replaces the whole word in
identifiers, function bodies and string literals. For the default schema it changes nothing.
"""

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from asyncq.domain.errors import ConfigurationError
from asyncq.domain.sentence import DEFAULT_SCHEMA

_NAME = re.compile(r"[a-z_][a-z0-9_]{0,39}")
_WORD = re.compile(r"\basyncq\b")

# Words that need quotes as identifiers; the schema's name is used without quotes.
_RESERVED_WORDS = """
    all analyse analyze and any array as asc asymmetric authorization between bigint binary bit boolean both case
    cast char character check coalesce collate collation column concurrently constraint create cross current_catalog
    current_date current_role current_schema current_time current_timestamp current_user dec decimal default
    deferrable desc distinct do else end except exists extract false fetch float for foreign freeze from full grant
    greatest group grouping having ilike in initially inner inout int integer intersect interval into is isnull join
    json json_array json_arrayagg json_exists json_object json_objectagg json_query json_scalar json_serialize
    json_table json_value lateral leading least left like limit localtime localtimestamp merge_action national
    natural nchar none normalize not notnull null nullif numeric offset on only or order out outer overlaps overlay
    placing position precision primary real references returning right row select session_user setof similar
    smallint some substring symmetric system_user table tablesample then time timestamp to trailing treat trim true
    union unique user using values varchar variadic verbose when where window with xmlattributes xmlconcat
    xmlelement xmlexists xmlforest xmlnamespaces xmlparse xmlpi xmlroot xmlserialize xmltable
"""
_RESERVED = frozenset((*_RESERVED_WORDS.split(), "information_schema"))


@cache
def folder() -> Traversable:
    """Return the folder of the SQL files: in the package, which may be a zip file, else in the checkout."""
    inside = files("asyncq") / "sql"
    return inside if inside.is_dir() else Path(__file__).parents[2] / "sql"


@cache
def texts(kind: str) -> dict[str, str]:
    """Read the SQL files of a kind (queries, functions or migrations) once: name without its ending -> text, sorted.

    The first two have a folder for each topic; no two files of a kind share a name.
    """
    found = sorted(_below(folder() / kind), key=lambda file: file.name)
    read = {file.name.removesuffix(".sql"): file.read_text("utf-8") for file in found}
    if not read:
        raise _missing(f"sql/{kind}")
    return read


def _below(parent: Traversable) -> Iterator[Traversable]:
    """Yield the SQL files of a folder and of the folders in it."""
    for found in parent.iterdir() if parent.is_dir() else ():
        if found.is_dir():
            yield from _below(found)
        elif found.name.endswith(".sql"):
            yield found


def sql_file(name: str) -> str:
    """Read one SQL file, such as `roles.sql`."""
    try:
        return (folder() / name).read_text("utf-8")
    except OSError as error:  # zipfile.Path raises FileNotFoundError too
        raise _missing(f"sql/{name}") from error


def _missing(what: str) -> ConfigurationError:
    return ConfigurationError(
        f"{what} is missing in the package asyncq ({folder()}): install asyncq again; "
        "a program that packs it has to include its data files, as PyInstaller does with --collect-all asyncq"
    )


def check_schema(schema: str) -> str:
    """Return a schema's name; raises ConfigurationError for one that needs quotes, is long, or is reserved."""
    is_text = isinstance(schema, str)  # pyright: ignore[reportUnnecessaryIsInstance]
    if not is_text or not _NAME.fullmatch(schema) or schema.startswith("pg_") or schema in _RESERVED:
        raise ConfigurationError(
            f"schema {schema!r} cannot be used: a schema is called [a-z_][a-z0-9_]* with at most 40 characters, "
            "does not begin with pg_, and is no reserved word of SQL"
        )
    return schema


def render(text: str, schema: str) -> str:
    """Render the text of a SQL file for a schema."""
    return text if schema == DEFAULT_SCHEMA else schema.join(_between_names(text))


@lru_cache(1024)
def _between_names(text: str) -> list[str]:
    """Split a text at the schema's names; cached for test suites that create a schema for each test."""
    return _WORD.split(text)


@cache
def query(name: str, schema: str) -> str:
    """Render a statement of sql/queries, named by its file without the ending, ready to be prepared."""
    found = texts("queries")
    if name not in found:
        raise _missing(f"sql/queries/{name}.sql")
    return render(found[name], schema)
