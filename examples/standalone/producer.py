"""Adds jobs by name: a producer needs the database and the name of the task, not its code."""

import asyncio
import os
import sys
from datetime import UTC, datetime, timedelta

from asyncq import Client

DSN = os.environ.get("DATABASE_URL", "postgresql:///app")


async def main(names: list[str]) -> None:
    """Greet each name now, and the first one again in a second."""
    async with Client(DSN) as client:
        for name in names:
            added = await client.add_job("hello", {"name": name})
            print(f"added job {added.id}")
        later = datetime.now(UTC) + timedelta(seconds=1)
        await client.add_job("hello", {"name": f"{names[0]}, again"}, run_at=later)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:] or ["Bobby"]))
