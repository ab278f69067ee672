"""Four tasks. The jobs of three of them have keys: a tenant, or the key of an API."""

import asyncio
from collections import Counter

from asyncq import Limit, Rate, RetryAfter, task

running, most_at_once, calls = Counter[str](), Counter[str](), Counter[str]()
imported: list[str] = []


@task(concurrency=Limit(3, by="tenant_id"))
async def sync(tenant_id: str) -> None:
    running[tenant_id] += 1
    most_at_once[tenant_id] = max(most_at_once[tenant_id], running[tenant_id])
    await asyncio.sleep(0.05)
    running[tenant_id] -= 1


@task(rate=Rate(2, per="1 min", by="api_key"), concurrency=Limit(1, by="api_key"))
async def call_api(api_key: str) -> None:
    calls[api_key] += 1
    if api_key == "blocked":
        raise RetryAfter(30, "429 Too Many Requests", partition=True)


@task(fair="tenant_id")
async def import_row(tenant_id: str) -> None:
    imported.append(tenant_id)


@task
async def send_mail(to: str) -> None:
    print(f"mailed: {to}")
