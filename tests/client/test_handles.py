"""A handle is an `Added`, and reads the progress of its job."""

import copy
import pickle

import anyio
import msgspec
import pytest

from asyncq import Added, Client, ConfigurationError, Handle, JobCompleted, JobContext, JobStarted, Worker, task
from tests.support.seen import Seen
from tests.support.waiting import wait_until


@task
async def count() -> int:
    """The least job."""
    return 7


async def test_a_handle_is_what_an_add_has_always_returned(client: Client) -> None:
    """Programs compare it, hash it, encode it, match it."""
    handle = await client.add_job(count, job_key="k")
    again = await client.add_job(count, job_key="k", job_key_mode="unsafe_dedupe")
    plain = Added(handle.id)

    assert isinstance(handle, Handle | Added)
    assert (handle, plain, hash(handle)) == (plain, handle, hash(plain))
    assert handle != again
    assert (again.outcome, again.existing_id, again.existing_state) == ("deduplicated", handle.id, "available")
    assert msgspec.json.encode(plain) == msgspec.json.encode(handle)
    assert msgspec.structs.asdict(plain) == msgspec.structs.asdict(handle)
    match handle:
        case Added(id=id_, outcome="added"):
            assert handle.id == id_
        case _:
            pytest.fail("no pattern of Added fits")


async def test_a_handle_reads_the_progress_of_its_job(dsn: str, schema: str, client: Client, seen: Seen) -> None:
    """None before the run has reported any, and after its end."""
    go_on = anyio.Event()

    @task
    async def copy_rows(ctx: JobContext) -> None:
        ctx.progress(3, 4)
        await go_on.wait()

    handle = await client.add_job(copy_rows)
    before = await handle.progress()
    async with Worker(dsn, [copy_rows], schema=schema, observers=[seen]).start():
        await seen.wait_for(JobStarted)

        async def has_progress() -> bool:
            return await handle.progress() is not None

        await wait_until(has_progress, description="the progress to be written")
        during = await handle.progress()
        go_on.set()
        await seen.wait_for(JobCompleted)
    after = await handle.progress()

    assert (None, None) == (before, after)
    assert during is not None
    assert (3, 4) == (during.done, during.total)


async def test_a_copy_of_a_handle_has_its_fields_only(client: Client) -> None:
    """It has no client in another process."""
    handle = await client.add_job(count)
    there = pickle.loads(pickle.dumps(handle))

    assert handle == there == copy.copy(handle)
    with pytest.raises(ConfigurationError, match=r"handle.progress\(\) works on the handle that add_job returned"):
        await there.progress()
