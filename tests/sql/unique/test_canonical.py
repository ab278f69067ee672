"""`_canonical`: the same text, to the byte, as in asyncq/domain/canonical.py, and the same refusals."""

import random
import struct
from collections.abc import Sequence

import pytest

from asyncq.domain.canonical import NotCanonical, parse, write
from asyncq.store.database import Database
from asyncq.store.migrate import migrate
from tests.support.icu import icu_database
from tests.support.json_texts import collect, values
from tests.support.session import Session, session
from tests.support.twins import differences, outcomes
from tests.support.vectors import CANONICAL, REFUSED, RFC_NUMBERS, double

CALL = "asyncq._canonical(a1::json)"


def in_python(text: str) -> str:
    """The result of Python for a JSON text."""
    try:
        return write(parse(text), "args")
    except NotCanonical:
        return "GWBUP args"


async def assert_twins(sql: Session, texts: Sequence[str]) -> None:
    """Both sides have the same result."""
    expected = [in_python(text) for text in texts]

    assert [] == differences(texts, expected, await outcomes(sql, CALL, texts))


async def test_the_canonical_texts(sql: Session) -> None:
    """The samples of RFC 8785, and the corners."""
    actual = await outcomes(sql, CALL, [*CANONICAL])

    assert [] == differences([*CANONICAL], [*CANONICAL.values()], actual)


async def test_settings_of_the_session_do_not_count(sql: Session) -> None:
    """The other tests run with odd ones; these are the server's own."""
    actual = await outcomes(sql, CALL, [*CANONICAL], hostile=False)

    assert [] == differences([*CANONICAL], [*CANONICAL.values()], actual)


async def test_numbers_are_written_as_ecmascript_writes_them(sql: Session) -> None:
    """RFC 8785, appendix B."""
    given = [repr(double(hexadecimal)) for hexadecimal in RFC_NUMBERS]

    assert [] == differences(given, [*RFC_NUMBERS.values()], await outcomes(sql, CALL, given))


async def test_a_value_without_canonical_text_is_refused(sql: Session) -> None:
    """The error has the same code and field as in Python."""
    actual = await outcomes(sql, CALL, REFUSED)

    assert [] == differences(REFUSED, ["GWBUP args"] * len(REFUSED), actual)


async def test_the_message_has_the_place(sql: Session) -> None:
    """The message does not quote the text: messages end up in logs, payloads must not."""
    error = await sql.refusal("""select asyncq._canonical('{"a":[0,{"b":9007199254740993}]}', 'meta')""")

    said = "is an integer that the numbers of JSON cannot hold exactly (above 2^53); send it as a string"
    assert (f"meta.a.1.b {said}", "meta", "GWBUP") == (error.message, error.column_name, error.sqlstate)


async def test_the_collation_of_the_database_does_not_count(dsn: str) -> None:
    """In English a sorts before B, and - and _ hardly count. Here code units decide."""
    text = '{"b":1,"B":2,"a":3,"_":4,"\u00e9":5,"-":6}'
    async with icu_database(dsn, "en-US") as english:
        await migrate(Database(english, "asyncq"))
        async with session(english, "asyncq") as sql:
            is_english, actual = await sql.row("select 'a' < 'B', asyncq._canonical($1::text::json)", text)

    assert is_english
    assert write(parse(text), "args") == actual


async def test_null_has_no_text(sql: Session) -> None:
    """JSON's null has one."""
    assert (None, "null") == tuple(await sql.row("select asyncq._canonical(null), asyncq._canonical('null')"))


async def test_a_number_that_jsonb_has_changed_keeps_its_text_or_is_refused(sql: Session) -> None:
    """jsonb makes integers of both. One is exact; of the other the intended value is unknown."""
    given = ["1e21", "4.4684703282094176e16"]

    assert ["1e+21", "44684703282094180"] == await outcomes(sql, CALL, given)
    assert ["1e+21", "GWBUP args"] == await outcomes(sql, "asyncq._canonical(a1::jsonb::json)", given)


async def test_only_some_members(sql: Session) -> None:
    """Names of the others are checked too: two that NFC makes equal are ambiguous."""
    call = "asyncq._canonical(a1::json, members => '{b,c}')"
    given = ['{"a":1e400,"b":{"a":1},"c":2}', '{"a":0,"\u00e9":1,"e\u0301":2}', "{}"]

    assert ['{"b":{"a":1},"c":2}', "GWBUP args", "{}"] == await outcomes(sql, call, given)


async def test_python_and_sql_agree_on_texts_of_all_kinds(sql: Session) -> None:
    """The texts are nested, in all notations and normal forms, or invalid. Their names sort differently in UTF-16."""
    await assert_twins(sql, collect(values, 1000))


@pytest.mark.slow
async def test_python_and_sql_agree_on_many_texts_of_all_kinds(sql: Session) -> None:
    """The same comparison with more texts."""
    await assert_twins(sql, collect(values, 10_000))


def neighbours(number: float) -> list[float]:
    """A positive double, and the two beside it."""
    (bits,) = struct.unpack(">Q", struct.pack(">d", number))
    return [double(f"{max(bits + step, 0):016x}") for step in (-1, 0, 1)]


async def test_python_and_sql_agree_on_powers_and_their_neighbours(sql: Session) -> None:
    """At a power of two the doubles below are closer than those above. At one of ten the number of digits changes."""
    powers = [2.0**power for power in range(-1074, 1024)] + [float(f"1e{power}") for power in range(-323, 309)]

    await assert_twins(sql, [repr(number) for power in powers for number in neighbours(power)])


async def test_python_and_sql_agree_halfway_between_doubles(sql: Session) -> None:
    """float8out never writes the short decimals that lie exactly halfway, but ECMAScript does."""
    chance = random.Random(54)
    found: list[str] = []
    while len(found) < 3000:
        power = chance.randint(1, 23)
        odd = chance.getrandbits(54) | 1 << 53 | 1
        # An odd multiple of 5^power with 54 bits, times some power of two that the power of ten needs.
        odd -= odd % 5**power
        if odd % 2 and odd >> 53 == 1:
            number = float(odd << chance.randint(power, power + 20))
            found += [repr(near) for near in neighbours(number)]

    await assert_twins(sql, found)


@pytest.mark.slow
async def test_python_and_sql_agree_on_random_doubles(sql: Session) -> None:
    """100,000, each bit by chance: from 5e-324 to 1.8e308."""
    chance = random.Random()
    doubles = [double(f"{chance.getrandbits(64):016x}") for _ in range(100_000)]

    await assert_twins(sql, [repr(number) for number in doubles if number - number == 0])


@pytest.mark.slow
async def test_python_and_sql_agree_on_random_integers(sql: Session) -> None:
    """100,000 of up to 64 bits and beyond, half of them with zeros at the end."""
    chance = random.Random()
    integers = [chance.getrandbits(chance.randint(50, 90)) for _ in range(50_000)]
    rounded = [number // 10**zeros * 10**zeros for number in integers for zeros in [chance.randint(1, 12)]]

    await assert_twins(sql, [str(number) for number in integers + rounded])
