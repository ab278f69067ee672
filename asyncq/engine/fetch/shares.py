"""Divides the slots of a worker among the queues and limits that it has chosen."""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

from asyncq.domain.job import Claim
from asyncq.domain.share import Choice, Portion, Share, portions_of, rooms
from asyncq.engine.base.identity import Identity
from asyncq.store.claim import Fetched


class Shares:
    """The shares of one worker. Where slots are divided, it counts the claims of each, from a fetch to their end."""

    def __init__(self, choice: Choice, identity: Identity) -> None:
        self._choice = choice
        self._identity = identity
        self._names = choice.names
        self._held: dict[tuple[int, int], Share | None] = {}

    def may_follow(self, claim: Claim) -> bool:
        """Whether the end of a claim may claim the next job of its partition (`claim_next`), whatever its task.

        False if slots are divided: the next fetch has to divide them again. False also for a queue that `queues` does
        not name. This worker took the job for its limit, and the next job may be of another task.
        """
        if self._names is None:
            return True
        return not self._choice.is_shared_out and (claim.queue is None or claim.queue in self._names)

    def hold(self, portion: Portion, claims: Sequence[Claim]) -> None:
        """Count the claims that a fetch of a portion has made."""
        if self._choice.is_shared_out:
            self._held |= {(claim.id, claim.token): portion.share for claim in claims}

    def ended(self, claim: Claim) -> None:
        """Stop counting a claim: its slot is free."""
        if self._held:
            self._held.pop((claim.id, claim.token), None)

    async def fetch(self, wanted: int, fetch: Callable[[int, Portion], Awaitable[Fetched]]) -> Fetched:
        """Fetch up to `wanted` jobs of partitions: `fetch` claims so many jobs of one portion, and calls `hold`.

        If a portion has fewer jobs than its slots, the other portions get the rest.
        """
        left = portions_of(self._choice, self._identity.limits)
        if len(left) == 1:
            return await fetch(wanted, left[0])
        claims, waits_s = list[Claim](), dict[Portion, float]()
        while len(claims) < wanted:
            held = Counter(self._held.values())
            given = rooms(wanted - len(claims), left, [held[portion.share] for portion in left])
            if not any(given):
                break
            answers = [
                await fetch(room, portion) if room else Fetched([]) for portion, room in zip(left, given, strict=True)
            ]
            for portion, answer in zip(left, answers, strict=True):
                claims += answer.claims
                if answer.again_s is not None:
                    waits_s[portion] = answer.again_s
            left = [each for each, room, answer in zip(left, given, answers, strict=True) if len(answer.claims) == room]
        return Fetched(claims, again_s=min(waits_s.values(), default=None) if len(claims) < wanted else None)
