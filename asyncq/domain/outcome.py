"""The outcomes of runs, and the transitions that they cause. Every transition of a running job is decided here.

    outcome        the row                                        attempts
    Completed      deleted                                        -
    Failed         waits for its retry, or discarded at the last  + 1
    TimedOut       the same: the handler ran too long             + 1
    RetryLater     the same with the handler's own delay          + 1
      partition    waits, as the other jobs of its partition      + 0
    Discarded      discarded at once                              all; one was made
    Snoozed        waits                                          + 0
    Interrupted    due at once; the 11th in a row fails           + 0
    Aborted        due soon; the 11th in a row fails              + 0
    Returned       due as it was, never started                   + 0
    Expired        deleted, as cancelled, never started           -

A request that was recorded in a running job's row overrules the outcome; only the database knows of it:

    request        the row                                        attempts
    cancelled      deleted                                        -
    rerun          begins again, with the new payload             0

A job with items is settled alike; the items that are left to do replace its payload.

After its deadline a job gets no further attempt: where one would start later, the job is discarded.

A job that a shutdown interrupted ten times in a row, or whose transaction was aborted ten times, may itself be the
cause: the eleventh time counts.
"""

from functools import partial
from typing import Literal, assert_never

import msgspec
from msgspec.structs import replace

from asyncq.domain.attempt import AttemptKind
from asyncq.domain.errors import seconds
from asyncq.domain.job import INT2, Claim
from asyncq.domain.retry import RetryPolicy
from asyncq.domain.stored_text import escaped

MAX_INTERRUPTIONS = 10
MAX_ERROR = 16 * 1024
FALLBACK_DELAY_S = 60.0
FIRST_ABORT_DELAY_S = 0.02
LONGEST_ABORT_DELAY_S = 10.0
PAST_DEADLINE = "DeadlineExceeded: no attempt is made after the deadline of the job"


class Rest(msgspec.Struct, frozen=True):
    """The items of a job that are left to do after a run: the payload of the next one, as JSON text.

    `failed` of its `total` items failed; those that a Discard gave up are not left.
    """

    payload: str
    failed: int
    total: int

    @property
    def some_are_done(self) -> bool:
        return self.failed < self.total


class Completed(msgspec.Struct, frozen=True):
    """The handler returned; `result` is the value as JSON, None if there is none or it is not kept.

    `fault` is the reason why a result that is to be kept cannot be stored.
    """

    result: str | None = None
    fault: str | None = None


class Failed(msgspec.Struct, frozen=True):
    """The handler raised, or the payload did not decode."""

    error: str
    rest: Rest | None = None


class TimedOut(msgspec.Struct, frozen=True):
    """The hard time limit cancelled the handler."""

    error: str
    timeout_s: float


class RetryLater(msgspec.Struct, frozen=True):
    """The handler raised RetryAfter; with `partition`, its whole partition waits."""

    error: str
    delay_s: float
    rest: Rest | None = None
    partition: bool = False


class Discarded(msgspec.Struct, frozen=True):
    """The handler raised Discard."""

    error: str
    rest: Rest | None = None


class Snoozed(msgspec.Struct, frozen=True):
    """The handler raised Snooze."""

    delay_s: float
    rest: Rest | None = None


class Interrupted(msgspec.Struct, frozen=True):
    """A shutdown cancelled the handler after the grace period."""


class Aborted(msgspec.Struct, frozen=True):
    """The transaction of the run could not begin, or was rolled back through no fault of the handler."""

    error: str


class Returned(msgspec.Struct, frozen=True):
    """The job was claimed but never started."""


class Expired(msgspec.Struct, frozen=True):
    """The job has expired: its first run did not start in time."""


Outcome = Completed | Failed | TimedOut | RetryLater | Discarded | Snoozed | Interrupted | Aborted | Returned | Expired


Ending = Literal["written", "cancelled", "rerun", "held", "lost"]
"""The effect of a settlement.

    written      it was written
    cancelled    a recorded cancellation overruled it
    rerun        a recorded rerun overruled it
    held         nothing was written: another transaction locks the row; try again
    lost         nothing was written: the worker no longer holds this claim
"""


class Settlement(msgspec.Struct, frozen=True, gc=False):
    """The new values for the row of a claim that ends; None keeps an old value.

    `end` is the state in which the job ends; then the other fields have no meaning. It is None for a job that waits or
    is discarded. `attempts` are added, `interruptions` are those in a row, `delay_s` is the wait until it is due again.
    `kind` is that of the failed attempt to record; None if there is none. `duration_s` is the time that the run took.
    `result` is the return value of the handler as JSON; without one, the `error` of a completed job may say why.
    `payload` replaces that of the job: the items that are left to do. `backs_off`: its partition waits as long.
    """

    id: int
    token: int
    partition: int | None
    end: Literal["completed", "cancelled"] | None = None
    attempts: int = 0
    delay_s: float | None = None
    error: str | None = None
    interruptions: int | None = None
    discarded: bool = False
    kind: AttemptKind | None = None
    duration_s: float | None = None
    result: str | None = None
    payload: str | None = None
    backs_off: bool = False


def rest_of(outcome: Outcome) -> Rest | None:
    """The items that a run has left, if some are done; None for all items, and for the outcomes of other jobs."""
    return outcome.rest if isinstance(outcome, Failed | RetryLater | Discarded | Snoozed) else None


def settle(claim: Claim, outcome: Outcome, policy: RetryPolicy, random: float, now: float = 0.0) -> Settlement:
    """The values that an outcome writes.

    `random` is between 0 and 1, for jitter; `now` is the time of the performance counter, for the deadline.
    """
    settlement = _settlement(claim, outcome, policy, random, now)
    rest = rest_of(outcome)
    return settlement if rest is None else replace(settlement, payload=rest.payload)


def _settlement(claim: Claim, outcome: Outcome, policy: RetryPolicy, random: float, now: float) -> Settlement:
    settlement = partial(Settlement, claim.id, claim.token, claim.partition)
    match outcome:
        case Completed(result, fault):
            return completion(claim, result=result, fault=fault)
        case Failed(error) | TimedOut(error):
            return _failure(claim, "failed", error, None, policy, random, now)
        case RetryLater(error, delay_s, partition=True) if not _is_too_late(claim, now + delay_s):
            return settlement(delay_s=delay_s, error=error, interruptions=0, backs_off=claim.partition is not None)
        case RetryLater(error, delay_s):
            return _failure(claim, "failed", error, delay_s, policy, random, now)
        case Discarded(error):
            return settlement(attempts=INT2, error=error, interruptions=0, discarded=True, kind="failed")
        case Snoozed(delay_s) if _is_too_late(claim, now + delay_s):
            return settlement(attempts=INT2, error=PAST_DEADLINE, interruptions=0, discarded=True, kind="failed")
        case Snoozed(delay_s):
            return settlement(delay_s=delay_s, interruptions=0)
        case Interrupted():
            if claim.interruptions >= MAX_INTERRUPTIONS:
                error = f"Interrupted: cut off by shutdowns {claim.interruptions + 1} times in a row"
                return _failure(claim, "interrupted", error, None, policy, random, now)
            return settlement(interruptions=claim.interruptions + 1)
        case Aborted(error):
            if claim.interruptions >= MAX_INTERRUPTIONS:
                return _failure(claim, "aborted", error, None, policy, random, now)
            delay_s = _abort_delay_s(claim.interruptions, random)
            return settlement(delay_s=delay_s, error=error, interruptions=claim.interruptions + 1)
        case Returned():
            return settlement()
        case Expired():
            return settlement(end="cancelled")
        case _:
            assert_never(outcome)


def completion(
    claim: Claim, *, duration_s: float | None = None, result: str | None = None, fault: str | None = None
) -> Settlement:
    """The settlement of a run that completed its job, with its result, or the reason why there is none."""
    settlement = partial(Settlement, claim.id, claim.token, claim.partition)
    return settlement(end="completed", duration_s=duration_s, result=result, error=fault)


def overruled(settlement: Settlement, ending: Ending) -> Settlement:
    """The settlement that was written: that of the run, or the one that a recorded request wrote instead."""
    match ending:
        case "cancelled":
            return Settlement(settlement.id, settlement.token, settlement.partition, end="cancelled")
        case "rerun":
            return Settlement(settlement.id, settlement.token, settlement.partition, delay_s=0.0)
        case "written" | "held" | "lost":
            return settlement
        case _:
            assert_never(ending)


def _failure(
    claim: Claim, kind: AttemptKind, error: str, delay_s: float | None, policy: RetryPolicy, random: float, now: float
) -> Settlement:
    attempt = claim.attempts + 1
    discarded = attempt >= claim.max_attempts
    if delay_s is None:
        delay_s, complaint = _delay_s(policy, attempt, random)
        error = clean_error(error + complaint)
    settlement = partial(Settlement, claim.id, claim.token, claim.partition)
    if not discarded and _is_too_late(claim, now + delay_s):
        error = clean_error(f"{error}\n\n{PAST_DEADLINE}")
        return settlement(attempts=INT2, error=error, interruptions=0, discarded=True, kind=kind)
    return settlement(attempts=1, delay_s=delay_s, error=error, interruptions=0, discarded=discarded, kind=kind)


def _is_too_late(claim: Claim, start: float) -> bool:
    """Whether a run that starts then would start after the deadline of its job."""
    return claim.deadline_at is not None and start >= claim.deadline_at


def _abort_delay_s(times_before: int, random: float) -> float:
    """The wait after an aborted transaction: random, so that two jobs do not conflict again; at most 10 s."""
    return min(FIRST_ABORT_DELAY_S * 2.0**times_before, LONGEST_ABORT_DELAY_S) * (0.5 + random / 2)


def _delay_s(policy: RetryPolicy, attempt: int, random: float) -> tuple[float, str]:
    """The delay of a policy, and text to add to the error if the policy fails: the job's own error must not be lost."""
    try:
        return seconds(policy.delay_s(attempt, random)), ""
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as broken:  # noqa: BLE001 - the user's code; a CancelledError that it raises cancels nothing here
        said = f"{type(broken).__name__}: {text_of(broken)}"
        return FALLBACK_DELAY_S, f"\n\nThe task's retry policy failed too, so the job waits a minute: {said}"


def text_of(value: object) -> str:
    """Convert any value to text; if its `__str__` raises, the text says so."""
    try:
        return str(value)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as broken:  # noqa: BLE001 - the user's code; a CancelledError that it raises cancels nothing here
        return f"<its __str__ raised {type(broken).__name__}>"


def error_text(error: BaseException) -> str:
    """The message of an error, or its type if it has no message, as a TimeoutError."""
    return text_of(error) or type(error).__name__


def error_line(error: BaseException) -> str:
    """An error in one line: type and message, as text that PostgreSQL can store."""
    return clean_error(f"{type(error).__name__}: {text_of(error)}")


def clean_error(text: str, most: int = MAX_ERROR) -> str:
    """Escape U+0000 and lone surrogates, and cut a text in the middle to at most 16,384 characters, for PostgreSQL."""
    text = escaped(text)
    if len(text) <= most:
        return text
    half = most // 2 - 32
    return f"{text[:half]}\n... {len(text) - 2 * half} characters left out ...\n{text[-half:]}"
