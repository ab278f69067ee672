"""`_canonical_number`: Number::toString of a number in JSON text; test_canonical.py compares it with Python."""

import pytest

from tests.support.session import Session
from tests.support.twins import outcomes

CALL = "asyncq._canonical_number(a1)"


@pytest.mark.parametrize(
    ("literal", "expected"),
    [
        ("0", "0"),
        ("-0", "0"),
        ("-0.000", "0"),
        ("-7", "-7"),
        ("999999999999999", "999999999999999"),
        ("9007199254740992", "9007199254740992"),
        ("9007199254740993", "GWBUP args"),
        ("44684703282094176.0", "44684703282094180"),
        ("1.50", "1.5"),
        ("0.000001", "0.000001"),
        ("0.0000001", "1e-7"),
        ("-1.5e-7", "-1.5e-7"),
        ("999999999999999999999.0", "1e+21"),
        ("1e20", "100000000000000000000"),
        ("-1.25E+100", "-1.25e+100"),
        ("1e400", "GWBUP args"),
        ("1e-400", "0"),
    ],
)
async def test_a_number_is_written_in_one_way(sql: Session, literal: str, expected: str) -> None:
    """The original notation does not matter."""
    assert [expected] == await outcomes(sql, CALL, [literal])


async def test_the_settings_of_the_session_stay(sql: Session) -> None:
    """The function needs its own precision; the caller keeps his."""
    await sql.execute("set local extra_float_digits = -3")
    await sql.execute("select asyncq._canonical_number('1.5')")

    assert "-3" == await sql.value("show extra_float_digits")


async def test_a_path_leads_to_the_argument_that_is_at_fault(sql: Session) -> None:
    """The message says where exactly, the column which argument."""
    error = await sql.refusal("select asyncq._canonical_number('1e400', 'meta.a.b')")

    assert ("meta", True) == (error.column_name, error.message.startswith("meta.a.b is a number beyond"))
