"""Workers and a server under blows, for a while: what was promised holds.

ASYNCQ_CHAOS_S says for how long, ASYNCQ_CHAOS_SEED which blows.
"""

import os
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from asyncq import Client
from asyncq.server import Server, start
from tests.crash import ledger
from tests.crash.chaos import Chaos, wait_for_the_end
from tests.disk import roomy_folder

SECONDS = float(os.environ.get("ASYNCQ_CHAOS_S", "30"))
SEED = int(os.environ.get("ASYNCQ_CHAOS_SEED", random.SystemRandom().randrange(2**32)))

pytestmark = [pytest.mark.crash, pytest.mark.timeout(int(SECONDS) + 120)]


@pytest.fixture
def server() -> Iterator[Server]:
    """A server that this test may kill."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", roomy_folder())
        made = start(settings={"max_wal_size": "128MB"})
    with made:
        yield made


async def test_what_was_promised_holds_under_blows(server: Server, tmp_path: Path) -> None:
    """Every committed job completes; no two runs of a job or a queue overlap; nothing that was written runs again."""
    await Client(server.dsn).migrate()
    chaos = Chaos(server, tmp_path, SEED)
    await chaos.reign(SECONDS)
    async with Client(server.dsn) as client:
        await wait_for_the_end(client, limit_s=60)
        await chaos.end()
        checkup = await client.admin.checkup()
    runs = chaos.runs()
    print(f"seed {SEED}: {len(chaos.added)} jobs, {len(runs)} runs, {len(chaos.blows)} blows: {' '.join(chaos.blows)}")

    assert [] == ledger.never_ran(chaos.added, runs)
    assert [] == ledger.overlapping(runs, chaos.fates)
    assert [] == [*ledger.repeated(runs, chaos.fates)]
    assert [] == chaos.deserters
    assert ((), 0) == (checkup.violations, checkup.live)
