"""Installs the tables and triggers, then runs the jobs that they start."""

import asyncio
import logging
import os
from pathlib import Path

import asyncpg

from asyncq import Client, Worker
from examples.sql_trigger.tasks import TASKS

DSN = os.environ.get("DATABASE_URL", "postgresql:///app")


async def install() -> None:
    """Upgrade the schema of asyncq, and install the tables beside it."""
    await Client(DSN).migrate()
    db = await asyncpg.connect(DSN)
    try:
        await db.execute(Path(__file__).with_name("tables.sql").read_text("utf-8"))
    finally:
        await db.close()


async def main() -> None:
    """Run until SIGTERM or Ctrl-C."""
    logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
    await install()
    print(f"""try: psql '{DSN}' -c "insert into users (email) values ('a@b.c')" """)
    await Worker(DSN, TASKS).run()


if __name__ == "__main__":
    asyncio.run(main())
