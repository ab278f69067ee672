"""Reports the errors of runs to Sentry. It needs the extra `sentry`: `pip install 'asyncq[sentry]'`."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Literal, cast

from asyncq.domain.around import Call, RunInfo
from asyncq.domain.errors import ConfigurationError, Discard, RetryAfter, Snooze, members_of
from asyncq.domain.job import Claim

try:
    import sentry_sdk
    from sentry_sdk.scope import Scope
    from sentry_sdk.utils import event_from_exception
except ModuleNotFoundError as error:
    raise ImportError("asyncq.contrib.sentry needs sentry-sdk: pip install 'asyncq[sentry]'") from error

MOST_IDS = 100  # of the jobs that were collected for a call

Attempts = Literal["last", "each"]
_REPORTED = "_asyncq_reported"  # an attribute of the errors that were reported


class Reporting:
    """Reports errors of handlers: `runs` is middleware.

    Args:
        attempts: Which failed attempts are reported: `"last"` (the default) or `"each"`. Earlier ones are warnings.
        payloads: Whether events have the payload of the job, and the local variables of frames, which hold it too;
            False by default.

    Raises:
        ConfigurationError: `attempts` is something else.

    From then on the events that Sentry makes of the log of asyncq have the same tags, and an error that was reported
    is not reported from the log again.
    """

    def __init__(self, *, attempts: Attempts = "last", payloads: bool = False) -> None:
        if attempts not in ("last", "each"):
            raise ConfigurationError(f"attempts is 'last' or 'each', got {attempts!r}")
        self._attempts = attempts
        self._payloads = payloads
        sentry_sdk.get_global_scope().add_event_processor(self._logged)

    async def runs(self, run: RunInfo, call: Call) -> Any:
        """Middleware of a `Worker` or a task: a scope around each run."""
        with sentry_sdk.isolation_scope() as scope:
            self._describe(scope, run)
            try:
                returned: Any = await call()
            except Exception as error:
                self._report(error, run.claims)
                raise
            for claim, failure in _failures(returned, run.claims):
                with sentry_sdk.new_scope() as own:
                    _tag(own, run.task, claim)
                    self._report(failure, [claim])
            return returned

    def _describe(self, scope: Scope, run: RunInfo) -> None:
        scope.set_transaction_name(run.task, source="task")
        known: dict[str, Any] = {"worker_id": run.worker_id, "attempt": run.attempt}
        if len(run.claims) == 1:
            _tag(scope, run.task, run.claims[0])
            known["max_attempts"] = run.claims[0].max_attempts
        else:
            scope.set_tag("asyncq.task", run.task)
            known["job_ids"] = [claim.id for claim in run.claims[:MOST_IDS]]
        scope.set_context("asyncq", known)
        if self._payloads:
            scope.set_context("payload", {str(claim.id): claim.payload for claim in run.claims[:MOST_IDS]})
        else:
            scope.add_event_processor(_without_variables)

    def _report(self, error: Exception, claims: Sequence[Claim]) -> None:
        """Report an error of these jobs, unless it costs none of them an attempt."""
        members = members_of(error)
        if all(isinstance(each, Snooze) or (isinstance(each, RetryAfter) and each.partition) for each in members):
            return
        is_last = any(isinstance(each, Discard) for each in members) or any(
            claim.attempts + 1 >= claim.max_attempts for claim in claims
        )
        if not is_last and self._attempts == "last":
            return
        options = sentry_sdk.get_client().options
        event, hint = event_from_exception(error, options, mechanism={"type": "asyncq", "handled": False})
        event["level"] = "error" if is_last else "warning"
        sentry_sdk.capture_event(event, hint)
        vars(error)[_REPORTED] = True

    def _logged(self, event: Any, hint: Any) -> Any:
        """Tag an event that Sentry makes of a record of asyncq; None for an error that was reported before."""
        record = hint.get("log_record")
        if record is None or not hasattr(record, "asyncq_event"):
            return event
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and any(_REPORTED in vars(each) for each in (error, *members_of(error))):
            return None
        fields = cast("dict[str, Any]", vars(record))
        tags = {f"asyncq.{name}": str(fields[name]) for name in ("task", "job_id") if fields.get(name)}
        event["tags"] = {**tags, **(event.get("tags") or {})}
        return event if self._payloads else _without_variables(event, hint)


def _failures(returned: Any, claims: Sequence[Claim]) -> Iterator[tuple[Claim, Exception]]:
    """The errors among the outcomes that a handler returned: one for each job; of the items of a job the first one."""
    if not isinstance(returned, list | tuple):
        return
    outcomes = cast("Sequence[object]", returned)
    if len(claims) == 1:
        failures = (each for each in outcomes if isinstance(each, Exception) and not isinstance(each, Snooze))
        for failure in islice(failures, 1):
            yield claims[0], failure
        return
    for claim, outcome in zip(claims, outcomes, strict=False):
        if isinstance(outcome, Exception):
            yield claim, outcome


def _tag(scope: Scope, task: str, claim: Claim) -> None:
    scope.set_tag("asyncq.task", task)
    scope.set_tag("asyncq.job_id", str(claim.id))
    if claim.queue is not None:
        scope.set_tag("asyncq.queue", claim.queue)


def _without_variables(event: Any, _: Any) -> Any:
    """Remove the local variables of all frames: the arguments of handlers are the payload."""
    for section in ("exception", "threads"):
        for value in _members(event, section, "values"):
            for frame in _members(value, "stacktrace", "frames"):
                frame.pop("vars", None)
    return event


def _members(part: Any, name: str, members: str) -> list[Any]:
    """A list in a member of a part of an event; empty if the event has none."""
    found = part.get(name)
    return cast("list[Any]", found.get(members) or []) if found else []
