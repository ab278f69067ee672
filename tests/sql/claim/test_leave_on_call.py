"""`_leave_on_call`: adds notify nobody from then on; if the role is handed over, all workers are notified."""

from tests.support.ear import Ear
from tests.support.session import Session, session

REGISTER = "insert into asyncq._workers (lease, pid, concurrency, host, tasks) values ('1 h', 1, 1, 'h', '{}')"
LEAVE, TELL_ALL = (True, False), (False, True)


async def test_a_worker_that_left_is_not_notified_of_adds(dsn: str, own: Session) -> None:
    """Adds save the notification, which serialises commits."""
    ear = Ear(own)
    await ear.open()
    await own.run("leave_on_call", *LEAVE)
    async with session(dsn, own.schema) as producer:
        await producer.rows("select asyncq.add_job('t')")

    assert [] == await ear.received()


async def test_when_it_is_handed_over_all_listeners_are_notified(dsn: str, own: Session) -> None:
    """One of them goes on call; the others have fetched once more. A lone worker notifies nobody."""
    async with session(dsn, own.schema) as worker:
        ear = Ear(own)
        await ear.open()
        await own.run("leave_on_call", *LEAVE)
        await worker.run("leave_on_call", *TELL_ALL)
        alone = list(await ear.received())
        await own.execute(f"{REGISTER}; {REGISTER}")
        await worker.run("leave_on_call", *TELL_ALL)
        await own.execute("delete from asyncq._workers")

        assert ([], [(f"{own.schema}:jobs", "all")]) == (alone, await ear.received())
