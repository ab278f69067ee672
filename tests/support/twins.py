"""Compares SQL and Python: the result of a function for each of many arguments, or the error that it raises."""

from collections.abc import Callable, Sequence
from typing import Any

from asyncq.domain.errors import InvalidJob
from tests.support.session import Session

# Settings of a caller, none of which may affect the functions.
HOSTILE = """
set local search_path = '';
set local extra_float_digits = -15;
set local standard_conforming_strings = off;
set local timezone = 'America/New_York';
set local intervalstyle = 'sql_standard';
set local datestyle = 'SQL, DMY';
set local bytea_output = 'escape'
"""

ATTEMPT = """
create or replace function pg_temp.attempt({parameters}) returns text language plpgsql as $attempt$
declare
  code text;
  field text;
begin
  return {call};
exception when others then
  get stacked diagnostics code = returned_sqlstate, field = column_name;
  return code || ' ' || field;
end
$attempt$
"""


async def outcomes(sql: Session, call: str, *columns: Sequence[Any], hostile: bool = True) -> list[str | None]:
    """The result of an expression for each row of arguments, in one round trip.

    Args:
        sql: A session in a transaction.
        call: The expression, with the arguments as `a1`, `a2`, ...; each is a text.
        *columns: The arguments: all of the first one, all of the second one, ...
        hostile: Whether the session has odd settings.

    Returns:
        The texts; for an error its code and its field, with a blank between.
    """
    names = [f"a{number}" for number, _ in enumerate(columns, 1)]
    arrays = ", ".join(f"${number}::text[]" for number, _ in enumerate(columns, 1))
    await sql.execute(ATTEMPT.format(parameters=", ".join(f"{name} text" for name in names), call=call))
    if hostile:
        await sql.execute(HOSTILE)
    return await sql.values(
        f"select pg_temp.attempt({', '.join(names)}) from unnest({arrays}) with ordinality "
        f"as given({', '.join(names)}, ord) order by ord",
        *columns,
    )


def outcome(call: Callable[[], str]) -> str:
    """The same of Python."""
    try:
        return call()
    except InvalidJob as error:
        return f"{error.code} {error.field}"


def differences(given: Sequence[Any], expected: Sequence[Any], actual: Sequence[Any]) -> list[Any]:
    """Where two lists differ, the shortest argument first: for an assertion that one can read."""
    rows = [row for row in zip(given, expected, actual, strict=True) if row[1] != row[2]]
    return sorted(rows, key=lambda row: len(str(row[0])))[:5]
