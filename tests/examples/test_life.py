"""examples/life: one program that uses most features together."""

import re
from pathlib import Path

from tests.support.example_program import fresh_database, program

STORY = """\
the shop opens
run: charge, attempt 1
step 1 of 2: asking the bank
run: charge, attempt 2
paid: 24 euros for 2 of teapot
kept: completed after TimedOut: ran longer than 3 s, {"item":"teapot","count":2,"euros":0}
stored: "asyncq:1:2027:..."
run: ship, attempt 1
one parcel: cup, spoon
run: send_news, attempt 1
run: send_news, attempt 2
run: add_up, attempt 1
earned: 48 euros
mailed: Ada, Eve, Bob
the shop closes
"""


async def test_the_shop_has_its_day(dsn: str, tmp_path: Path) -> None:
    """Its README says which feature each line proves; encrypted bytes differ."""
    async with fresh_database(dsn) as database:
        with program(tmp_path / "log", "examples.life.shop", DATABASE_URL=database) as shop:
            code = await shop.end()
    said = re.sub(r"(?<=2027:)[\w+/=]+", "...", shop.log.read_text())

    assert (0, STORY) == (code, said)
