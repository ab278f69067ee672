"""`_is_listening`: whether a worker would receive the notification of a hand-off."""

from tests.support.handoffs import FIRST, open_slot, register
from tests.support.session import Session, session


async def test_a_worker_listens_as_long_as_the_connection_lives_that_opened_its_slot(dsn: str, own: Session) -> None:
    """It listens neither before its first slot nor after the end of that connection. The check leaves no lock."""
    worker = await register(own)
    before = await own.value("select asyncq._is_listening($1)", worker)
    async with session(dsn, own.schema) as ear:
        await open_slot(ear, FIRST, worker=worker)
        meanwhile = [await own.value("select asyncq._is_listening($1)", worker) for _ in range(2)]
    held = await own.value(
        "select count(*) from pg_catalog.pg_locks where locktype = 'advisory' and pid = pg_backend_pid()"
    )

    assert (False, [True, True], 0) == (before, meanwhile, held)
    assert not await own.value("select asyncq._is_listening($1)", worker)
    await own.execute("delete from asyncq._workers")
