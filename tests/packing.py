"""Claims in batches, also of a few jobs: with ASYNCQ_TEST_PACK_FROM=1 all tests run with what is else for full load."""

import os

from asyncq.store import jobs

PACK_FROM = int(os.environ.get("ASYNCQ_TEST_PACK_FROM", jobs.PACK_FROM))


def pack() -> None:
    """Let this process claim batches from so many jobs on."""
    jobs.PACK_FROM = PACK_FROM
