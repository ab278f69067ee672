"""The task of the example, and the codec of its worker."""

import os

from asyncq import task
from examples.codec.aes_gcm import codec_of

# The command `asyncq worker` uses a codec with this name.
worker_codec = codec_of(os.environ["JOB_KEYS"])


@task
async def send_letter(name: str, address: str) -> None:
    """Take a payload that the database must not show."""
    print(f"a letter for {name}, {address}", flush=True)
