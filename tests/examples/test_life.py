"""examples/life: one program that uses most features together."""

import re
from pathlib import Path

from tests.support.example_program import fresh_database, program

STORY = """\
the shop opens
run: charge, attempt 1
run: charge, attempt 2
paid: 24 euros for 2 of teapot
failed before: TimedOut: ran longer than 3 s
kept: completed, {"item":"teapot","count":2}, {"order":{"item":"teapot","count":2},"euros":24}
stored: "asyncq:1:zlib:..."
run: ship, attempt 1
one parcel: cup, spoon
run: send_news, attempt 1
run: send_news, attempt 2
run: add_up, attempt 1
earned: 48 euros
run: take_stock, attempt 1
counting: shelf ... of 600
mailed: Ada, Eve, Bob
the shop closes
"""


async def test_the_shop_has_its_day(dsn: str, tmp_path: Path) -> None:
    """Its README says which feature each line proves; compressed bytes and the time of a report may differ."""
    async with fresh_database(dsn) as database:
        with program(tmp_path / "log", "examples.life.shop", DATABASE_URL=database) as shop:
            code = await shop.end()
    said = re.sub(r"(?<=zlib:)[\w+/=]+|(?<=shelf )\d+", "...", shop.log.read_text())

    assert (0, STORY) == (code, said)
