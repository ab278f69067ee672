"""A client with a codec: what it adds is encoded, what it reads is clear."""

import asyncpg
import pytest

from asyncq import Client, CodecFailed, InvalidJob, JobSpec, StoreError, UniquePolicy, task
from asyncq.testing import assert_added
from tests.support.codecs import Backwards, Refusing, sealed
from tests.support.roles import three_roles

CLEAR = '{"name":"Ada"}'


@task
async def greet(name: str) -> None:
    """Has a payload."""


async def test_each_way_to_add_encodes(dsn: str, schema: str, db: asyncpg.Connection) -> None:
    """One job, many, with a key, in a transaction of the caller; keys, flags and meta are not encoded."""
    async with Client(dsn, schema=schema, codec=Backwards("k1")) as client:
        await client.add_job(greet, "Ada")
        await client.add_jobs([greet.job("Ada"), greet.job("Ada").with_options(queue="q")])
        await client.add_job(greet, "Ada", job_key="key", meta={"a": 1}, flags=["f"])
        async with db.transaction():
            await client.add_job("greet", {"name": "Ada"}, connection=db)
        found = (await client.admin.find_jobs(newest=False)).jobs
        await assert_added(client, greet, name="Ada", job_key="key")
    stored = await db.fetch(f"select payload::text from {schema}._jobs")

    assert {f'"{sealed("k1", "greet", CLEAR)}"'} == {row["payload"] for row in stored}
    assert [CLEAR] * 5 == [job.payload for job in found]
    assert ("key", {"a": 1}, ("f",)) == (found[3].key, found[3].meta, found[3].flags)


async def test_a_reader_without_the_key_sees_the_envelope(dsn: str, schema: str, client: Client) -> None:
    """A list of jobs must not fail because of one of them."""
    async with Client(dsn, schema=schema, codec=Backwards("k1")) as encoding:
        added = await encoding.add_job(greet, "Ada")
        clear = await client.add_job(greet, "Bob")
        assert '{"name":"Bob"}' == (await encoding.get_job(clear.id)).payload
    async with Client(dsn, schema=schema, codec=Backwards("k2")) as other:
        found = [(await reader.get_job(added.id)).payload for reader in (client, other)]

    assert [f'"{sealed("k1", "greet", CLEAR)}"'] * 2 == found


async def test_a_codec_that_raises_fails_the_add(dsn: str, schema: str, client: Client) -> None:
    """Nothing is added, neither clear nor encoded, and the call is not repeated."""
    async with Client(dsn, schema=schema, codec=Refusing("k"), retry_for=60) as encoding:
        with pytest.raises(CodecFailed, match=r"'greet' cannot be encoded: .* OSError: the key service") as caught:
            await encoding.add_jobs([greet.job("Ada"), greet.job("bad")])

    assert isinstance(caught.value.__cause__, OSError)
    assert [] == (await client.admin.find_jobs(newest=False)).jobs


async def test_a_unique_policy_sees_the_clear_payload(dsn: str, schema: str, client: Client) -> None:
    """Two encodings of one payload differ, as under two keys; a client without a codec agrees about the key."""
    policy = UniquePolicy(keys=["args"], on_conflict="ignore")
    outcomes: list[str] = []
    for codec in (Backwards("k1"), Backwards("k1", "k2"), None):
        async with Client(dsn, schema=schema, codec=codec) as adding:
            outcomes.append((await adding.add_job(greet, "Ada", unique=policy)).outcome)
    async with Client(dsn, schema=schema, codec=Backwards("k1")) as adding:
        outcomes.append((await adding.add_job(greet, "Bob", unique=policy)).outcome)

    assert ["added", "deduplicated", "deduplicated", "added"] == outcomes


async def test_sql_computes_no_unique_key_from_an_encoded_payload(db: asyncpg.Connection, schema: str) -> None:
    """Each encoding is another one: the policy would never find a conflict."""
    add = f"select id from {schema}.add_job('greet', $1, options := $2)"
    for policy in ('{"keys": ["args"]}', '{"keys": ["type"], "args_keys": ["name"]}'):
        with pytest.raises(asyncpg.PostgresError, match="payload is encoded: only a client with its codec") as caught:
            await db.fetchval(add, '"asyncq:1:k1:AAAA"', f'{{"unique": {policy}}}')
        assert "GWBPL" == caught.value.sqlstate

    assert await db.fetchval(add, '"asyncq:1:k1:AAAA"', '{"unique": {"keys": ["type"]}}') is not None


async def test_a_role_that_may_only_enqueue_needs_a_policy_without_the_payload(dsn: str) -> None:
    """Its unique keys are computed by the database."""
    async with (
        three_roles(dsn) as roles,
        Client(roles.dsn_of(roles.enqueuer), schema=roles.schema, codec=Backwards("k1")) as client,
    ):
        with pytest.raises(InvalidJob, match=r"'greet': this role may only call enqueue, .* cannot read an encoded"):
            await client.add_job(greet, "Ada", unique=UniquePolicy(keys=["args"]))
        with pytest.raises(InvalidJob, match="is an array: an add with its job_key would merge"):
            await client.add_job("mail", [1], job_key="a")
        added = await client.add_job(greet, "Ada", singleton=True)

    assert "added" == added.outcome


async def test_the_limit_of_a_client_is_that_of_the_encoded_payload(dsn: str, schema: str) -> None:
    """A clear payload below it may become too large."""
    async with Client(dsn, schema=schema, codec=Backwards("k1"), max_payload=30) as client:
        with pytest.raises(InvalidJob, match="once it is encoded, at most 30 are allowed"):
            await client.add_job(greet, "Ada")
        with pytest.raises((InvalidJob, StoreError), match="at most 30 are allowed"):
            await client.add_job(greet, "A" * 40)


async def test_a_clear_text_that_looks_encoded_is_refused(client: Client, dsn: str, schema: str) -> None:
    """Workers would decode it: the author of the text could choose the whole payload. A codec hides the text."""
    text = "asyncq:1:k1:AAAA"
    with pytest.raises(InvalidJob, match="payload of task 'echo' is a text that begins with asyncq:1:") as caught:
        await client.add_jobs([JobSpec(task="echo"), JobSpec(task="echo", payload=f'"{text}"')])
    assert ("GWBPL", "payload") == (caught.value.code, caught.value.field)
    async with Client(dsn, schema=schema, codec=Backwards("k1")) as encoding:
        added = await encoding.add_job("echo", text)
        job = await encoding.get_job(added.id)

    assert f'"{text}"' == job.payload
