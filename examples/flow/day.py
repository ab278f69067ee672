"""Add jobs to four tasks, and print how limits, rates, fairness and a pause order their starts."""

import asyncio
import os

from asyncq import Client, Worker
from examples.flow.tasks import call_api, calls, import_row, imported, most_at_once, send_mail, sync

DSN = os.environ["DATABASE_URL"]


async def run() -> None:
    await Worker(DSN, [sync, call_api, import_row, send_mail]).run_once()


async def main() -> None:
    client = Client(DSN)
    await client.migrate()
    async with client:
        await client.add_jobs([sync.job(tenant_id=tenant) for tenant in ["acme"] * 9 + ["zeta"] * 9])
        await run()
        for tenant, number in sorted(most_at_once.items()):
            print(f"synced: {tenant}, at most {number} at once")

        await client.add_jobs([call_api.job(api_key=key) for key in ["good"] * 5 + ["blocked"] * 5])
        await run()
        for key in await client.admin.partitions("call_api"):
            print(f"called: {key.key}, {calls[key.key or '']} times, and {key.waiting} jobs wait: {key.why}")

        await client.add_jobs([import_row.job(tenant_id=tenant) for tenant in ["big"] * 300 + ["small"] * 3])
        await run()
        print(f"imported: {len(imported)} rows, of small {imported[:50].count('small')} among the first 50")

        await client.admin.pause(reason="the disk is replaced")
        added = await client.add_job(send_mail.job(to="ann@example.org"))
        await run()
        for reason in (await client.admin.explain(added.id)).reasons:
            if reason.reason == "paused":
                print(f"waits: {reason.detail.rpartition(': ')[2]}")
        await client.admin.resume()
        await run()


if __name__ == "__main__":
    asyncio.run(main())
