"""What a worker does when it hears that something was paused or resumed."""

import json
from typing import Any

import pytest

from asyncq import Paused, Resumed
from asyncq.domain.options import WorkerOptions
from asyncq.engine.base.observers import Observers
from asyncq.engine.fetch.pauses import Pauses
from asyncq.engine.fetch.schedule import Schedule
from tests.engine.fetch.test_buffer import claim
from tests.engine.fetch.test_inbox import Desk
from tests.support.seen import Seen

MESSAGE: dict[str, Any] = {"act": "paused", "what": "task", "name": "t", "key": None, "by": "ann", "reason": None}


class Ear:
    """Pauses of a worker with two claims that have not started."""

    def __init__(self) -> None:
        self.desk, self.seen = Desk(), Seen()
        self.looks = 0
        self.desk.inbox.receive(7, [claim(1), claim(2)])
        self.schedule = Schedule(
            self.desk.inbox, WorkerOptions(), may_fetch=lambda: True, finished=lambda: 0, following=lambda: 0
        )
        self.schedule.is_woken = False
        self.pauses = Pauses(self.desk.inbox, self.schedule, Observers([self.seen]), paused=self._look)

    def _look(self) -> None:
        self.looks += 1


async def test_after_a_pause_unstarted_claims_go_back_and_the_worker_fetches() -> None:
    """The fetch takes again those that may run. Jobs that wait without a partition are moved."""
    ear = Ear()

    assert ear.pauses.heard(json.dumps(MESSAGE))
    assert [([1, 2], "something was paused", 7)] == ear.desk.given_back
    assert (1, True, 1) == (ear.looks, ear.schedule.is_woken, len(ear.seen.of(Paused)))


async def test_after_a_resume_the_worker_fetches() -> None:
    """What it has claimed stays."""
    ear = Ear()

    assert ear.pauses.heard(json.dumps(MESSAGE | {"act": "resumed"}))
    assert ([], 0, True, 1) == (ear.desk.given_back, ear.looks, ear.schedule.is_woken, len(ear.seen.of(Resumed)))


@pytest.mark.parametrize(
    "text", ["", "all", "{", "[]", "{}", json.dumps(MESSAGE | {"act": "drop"}), json.dumps(MESSAGE | {"by": 5})]
)
async def test_other_messages_are_left_to_others(text: str) -> None:
    """Any role can send anything on the channel."""
    ear = Ear()

    assert not ear.pauses.heard(text)
    assert ([], [], False) == (ear.desk.given_back, ear.seen.events, ear.schedule.is_woken)
