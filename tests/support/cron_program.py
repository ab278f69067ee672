"""The cron of a worker, in a process of its own: `python -m tests.support.cron_program DSN SCHEMA CRONTAB`.

It makes a round for each line on its standard input, and answers with the number of jobs that it has added in it.
"""

import asyncio
import sys

from asyncq import CronAdded, Event, observer, parse_crontab
from asyncq.domain.task import Registry
from asyncq.engine.base.identity import Identity
from asyncq.engine.base.observers import Observers
from asyncq.engine.cron.scheduler import Cron
from asyncq.store.database import Database, ReconnectingConnection


async def main() -> None:
    """Make rounds until the input ends."""
    dsn, schema, crontab = sys.argv[1:]
    added: list[Event] = []
    database = Database(dsn, schema)
    line = ReconnectingConnection(database, "fetch")
    identity = Identity(Registry([]))
    cron = Cron(database, line, parse_crontab(crontab), identity, Observers([observer(CronAdded)(added.append)]))
    try:
        while await asyncio.to_thread(sys.stdin.readline):
            added.clear()
            await cron.round()
            print(sum(len(event.job_ids) for event in added), flush=True)
    finally:
        await cron.close()
        await line.close()


if __name__ == "__main__":
    asyncio.run(main())
