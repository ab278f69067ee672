"""`store.statements`: where the SQL files are, and which names a schema may have."""

from pathlib import Path

import pytest

from asyncq.domain.errors import ConfigurationError
from asyncq.domain.sentence import command
from asyncq.store.statements import check_schema, folder, query, render
from tests.support.session import Session

CHECKOUT = Path(__file__).parents[2]

GOOD = ("asyncq", "a", "_", "_x", "a1", "jobs_of_the_shop", "x" * 40, "public", "pgx", "data", "name")
BAD = (
    *("", "A", "Asyncq", "1a", "a-b", "a.b", "a b", 'a"b', "a$", "ä", "a\n", "x" * 41),
    *("pg_x", "pg_", "pg_catalog", "information_schema", "user", "order", "all", "select", "table", "left", "between"),
)

# Words that quote_ident() quotes although none of their characters needs it.
QUOTED = """
select word from pg_catalog.pg_get_keywords() where quote_ident(word) <> word
"""


@pytest.mark.parametrize("name", GOOD)
def test_a_plain_name_can_be_a_schema(name: str) -> None:
    """SQL uses it without quotes in place of the word `asyncq`."""
    assert name == check_schema(name)


@pytest.mark.parametrize("name", BAD)
def test_other_names_are_refused_with_a_sentence(name: str) -> None:
    """They are refused before anything is sent. The server's syntax error amid a migration would not help."""
    with pytest.raises(ConfigurationError, match="at most 40 characters") as error:
        check_schema(name)

    assert repr(name) in str(error.value)


async def test_every_word_that_the_server_would_quote_is_refused(sql: Session) -> None:
    """The list is ours, the words are the server's, and each version has new ones."""
    taken = []
    for word in await sql.values(QUOTED):
        try:
            taken.append(check_schema(word))
        except ConfigurationError:
            continue

    assert [] == taken


@pytest.mark.parametrize("name", GOOD)
async def test_a_name_that_is_taken_needs_no_quotes(sql: Session, name: str) -> None:
    """Every accepted name is one that the server does not quote."""
    assert name == await sql.value("select quote_ident($1)", name)


def test_a_command_names_another_schema_than_the_usual_one() -> None:
    """Without the option the suggested command would change the schema `asyncq`."""
    assert ("asyncq migrate", "asyncq migrate --schema jobs") == (
        command("migrate", "asyncq"),
        command("migrate", "jobs"),
    )


def test_only_the_whole_word_is_replaced() -> None:
    """Other names may contain it."""
    text = "select asyncq.x from asyncq_jobs, my_asyncq, 'asyncq:jobs' -- asyncq"

    assert "select s.x from asyncq_jobs, my_asyncq, 's:jobs' -- s" == render(text, "s")


def test_the_files_are_those_of_the_checkout() -> None:
    """An editable install leaves a stale copy in site-packages; the package runs from here."""
    assert CHECKOUT / "sql" == folder()


def test_a_query_is_read_once() -> None:
    """It is asked for with each call."""
    assert query("beat", "s") is query("beat", "s")
    assert "update s._workers" in query("beat", "s")
