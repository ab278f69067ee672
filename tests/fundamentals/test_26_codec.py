"""A codec: the database stores payloads that only the program can read."""

import zlib

import asyncpg

from asyncq import Client, Codec, Worker, task


class Compressed(Codec):
    """Compresses; one that encrypts has the same methods."""

    key_id = "zlib"

    def encode(self, task: str, data: bytes) -> bytes:
        return zlib.compress(data)

    def decode(self, task: str, data: bytes, key_id: str) -> bytes:
        return zlib.decompress(data)


async def test_a_codec_encodes_payloads(dsn: str, schema: str, db: asyncpg.Connection) -> None:
    """The handler receives the clear payload, and so does a client that reads the job."""
    greeted: list[str] = []

    @task
    async def greet(name: str) -> None:
        greeted.append(name)

    async with Client(dsn, schema=schema, codec=Compressed()) as client:
        added = await client.add_job(greet, "Ada")
        job = await client.get_job(added.id)
    stored = await db.fetchval(f"select payload::text from {schema}._jobs")
    await Worker(dsn, [greet], schema=schema, codec=Compressed()).run_once()

    assert stored.startswith('"asyncq:1:zlib:')
    assert (job.payload, greeted) == ('{"name":"Ada"}', ["Ada"])
