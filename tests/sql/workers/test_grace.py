"""`_grace`: how long a worker whose lock is free has to say that it lives."""

from datetime import timedelta

from asyncq.engine.base.lease import GRACE_S
from tests.support.session import Session


async def test_workers_and_the_server_mean_the_same_grace(sql: Session) -> None:
    """A worker that cannot say it within half of that cancels its handlers."""
    assert timedelta(seconds=GRACE_S) == await sql.value("select asyncq._grace()")
