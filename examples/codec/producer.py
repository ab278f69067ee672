"""Adds a job whose payload is encrypted, and shows what the database stores."""

import asyncio
import os
import sys

from asyncq import Client
from examples.codec.tasks import send_letter, worker_codec

DSN = os.environ.get("DATABASE_URL", "postgresql:///app")


async def main(name: str) -> None:
    """Add a job, and read it with and without the codec."""
    async with Client(DSN, codec=worker_codec) as client, Client(DSN) as other:
        added = await client.add_job(send_letter.job(name=name, address="12 Analytical Row"))
        print((await client.get_job(added.id)).payload)
        print((await other.get_job(added.id)).payload)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "Ada"))
