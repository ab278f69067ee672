"""The inbox: each claim either waits for a slot or is returned, under the id under which it was claimed."""

from collections.abc import Collection

import pytest

from asyncq.domain.job import Claim
from asyncq.domain.task import Registry
from asyncq.engine.base.groups import WorkerTasks
from asyncq.engine.base.identity import Identity
from asyncq.engine.base.lease import Lease, now_s
from asyncq.engine.fetch.inbox import Inbox
from tests.engine.fetch.test_buffer import claim


class Desk:
    """An inbox of worker 7, whose clock is the server's.

    Attributes:
        given_back: The jobs, the reason and the worker's id of each return.
    """

    def __init__(self) -> None:
        self.given_back: list[tuple[list[int], str, int]] = []
        self.identity = Identity(Registry([]))
        self.identity.worker_id = 7
        lease = Lease(30.0)
        lease.clocked(now_s(), now_s())
        self.inbox = Inbox(self.identity, lease, self._give_back)

    def _give_back(self, claims: Collection[Claim], reason: str, worker_id: int) -> None:
        self.given_back.append(([each.id for each in claims], reason, worker_id))


async def test_claims_wait_in_the_buffer_and_the_fetcher_checks_them() -> None:
    """It returns those that find no free slot."""
    desk = Desk()

    assert desk.inbox.receive(7, [claim(1), claim(2)])
    assert (2, True, []) == (len(desk.inbox.buffer), desk.inbox.changed.is_set(), desk.given_back)


async def test_claims_of_a_former_id_are_returned_under_that_id() -> None:
    """Under the new id they would not be found."""
    desk = Desk()

    assert not desk.inbox.receive(6, [claim(1)])
    assert [([1], "the worker was declared dead", 6)] == desk.given_back


async def test_a_closed_inbox_returns_buffered_claims_and_those_that_arrive_later() -> None:
    """A fetch in flight brings its claims afterwards."""
    desk = Desk()
    desk.inbox.receive(7, [claim(1)])
    desk.inbox.close()

    assert not desk.inbox.receive(7, [claim(2)])
    assert [([1], "the worker stops", 7), ([2], "the worker stops", 7)] == desk.given_back


@pytest.mark.parametrize("ago_s", [0.0, 60.0])
async def test_a_claim_that_an_add_made_long_ago_is_returned(ago_s: float) -> None:
    """It may have been rescued before the notification arrived."""
    desk = Desk()
    desk.inbox.take_over(7, claim(1), now_s() - ago_s)

    assert [([1], "the message about it came late", 7)] * bool(ago_s) == desk.given_back


async def test_nothing_is_given_back_where_nothing_waits() -> None:
    """Observers are called for returned jobs, not for none."""
    desk = Desk()
    desk.inbox.return_all("too many handlers are stuck")

    assert [] == desk.given_back


async def test_no_task_starts_before_the_workers_group_is_open() -> None:
    """A part that starts one too early has a defect: it would be lost in silence."""
    with pytest.raises(RuntimeError, match="before the worker's task group was opened"):
        WorkerTasks().start_soon(test_no_task_starts_before_the_workers_group_is_open)
