"""All queues, asyncq first."""

from __future__ import annotations

from benchmarks.peers import arq, asyncq, floor, graphile, oban, pgboss, pgqueuer, procrastinate, saq, taskiq
from benchmarks.peers.peer import Peer

OURS = asyncq.PEER
FLOOR = floor.PEER
OTHERS = (
    graphile.PEER,
    pgboss.PEER,
    pgqueuer.PEER,
    oban.PEER,
    procrastinate.PEER,
    saq.PEER,
    saq.ON_REDIS,
    taskiq.PEER,
    arq.PEER,
)
ALL: dict[str, Peer] = {peer.name: peer for peer in (OURS, FLOOR, *OTHERS)}
