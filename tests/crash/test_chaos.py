"""Workers and a server under random faults: all guarantees hold.

ASYNCQ_CHAOS_S is the duration, ASYNCQ_CHAOS_SEED decides the faults.
"""

import json
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from asyncq.server import Server
from tests.crash import clocks
from tests.crash.blows import DECK, HOLDING_DECK
from tests.crash.chaos import chaos_on, server_to_kill
from tests.crash.summary import tell

SECONDS = float(os.environ.get("ASYNCQ_CHAOS_S", "25"))
SEED = int(os.environ.get("ASYNCQ_CHAOS_SEED", random.SystemRandom().randrange(2**32)))

pytestmark = [pytest.mark.crash, pytest.mark.timeout(6 * int(SECONDS) + 120)]


@pytest.fixture
def server() -> Iterator[Server]:
    """A server that this test may kill; nothing of it is left."""
    with server_to_kill() as made:
        yield made


@pytest.mark.parametrize("deck", [DECK, HOLDING_DECK], ids=["of everything", "rescued in part"])
async def test_all_guarantees_hold_under_faults(server: Server, tmp_path: Path, deck: dict[str, int]) -> None:
    """Every committed job runs, and none too early.

    Work that must be done once is done once, runs do not overlap, and attempts are counted correctly. No more jobs
    start than limits and rates allow, and none that is paused or backed off, while an operator changes all of these.
    The laws of the store hold all the time, and the workers leave nothing behind.
    """
    async with chaos_on(server, tmp_path, SEED, deck) as chaos:
        await chaos.reign(SECONDS)
        wrong, summary = await chaos.verdict(), await chaos.summary()
    moved = "none moved: " + clocks.MISSING if clocks.library() is None else "moved"
    print(f"seed {SEED}: {json.dumps(summary)}; clocks {moved}; {' '.join(chaos.blows.dealt)}")
    tell(summary)
    broken = {what: found for what, found in wrong.items() if found}
    if broken:
        print(json.dumps(broken, default=str, indent=1))

    assert {} == broken, chaos.crew.logs(chaos.crew.deserters)
