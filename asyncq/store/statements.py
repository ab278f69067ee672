"""Finds the SQL files, checks the schema's name, renders the files for it.

In sql/ the word `asyncq` means the schema and nothing else, so that each file is valid as it stands; rendering replaces
the whole word, in identifiers, function bodies and string literals alike. For the default schema it is the identity.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from pathlib import Path

from asyncq.domain.errors import ConfigurationError
from asyncq.domain.sentence import DEFAULT_SCHEMA

_NAME = re.compile(r"[a-z_][a-z0-9_]{0,39}")
_WORD = re.compile(r"\basyncq\b")

# Words that are identifiers only in quotes; a replaced word must be right without them.
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


def folder() -> Path:
    """The folder of the SQL files: inside the installed package, else at the top of the checkout.

    Returns:
        The path.
    """
    package = Path(__file__).parents[1]
    inside = package / "sql"
    return inside if inside.is_dir() else package.parent / "sql"


@cache
def texts(of: Path) -> dict[str, str]:
    """The SQL files of a folder, each read once.

    Args:
        of: The folder.

    Returns:
        The name of each file without its ending -> its text, in the order of the names.
    """
    return {path.stem: path.read_text("utf-8") for path in sorted(of.glob("*.sql"))}


def check_schema(schema: str) -> str:
    """A schema's name that can stand without quotes wherever the word `asyncq` stands.

    Args:
        schema: The name.

    Returns:
        The same name.

    Raises:
        ConfigurationError: The name does not match `[a-z_][a-z0-9_]{0,39}`, begins with `pg_`, or is a reserved word.
    """
    is_text = isinstance(schema, str)  # pyright: ignore[reportUnnecessaryIsInstance]
    if not is_text or not _NAME.fullmatch(schema) or schema.startswith("pg_") or schema in _RESERVED:
        raise ConfigurationError(
            f"schema {schema!r} cannot be used: a schema is called [a-z_][a-z0-9_]* with at most 40 characters, "
            "does not begin with pg_, and is no reserved word of SQL"
        )
    return schema


def render(text: str, schema: str) -> str:
    """The text of a SQL file for a schema."""
    return text if schema == DEFAULT_SCHEMA else schema.join(_between_names(text))


@lru_cache(1024)
def _between_names(text: str) -> list[str]:
    """The parts of a text between the schema's names; whoever makes a schema for each test asks again and again."""
    return _WORD.split(text)


@cache
def query(name: str, schema: str) -> str:
    """A statement of sql/queries.

    Args:
        name: The file's name without its ending.
        schema: The schema, checked.

    Returns:
        The statement, ready to be prepared.
    """
    return render(texts(folder() / "queries")[name], schema)
