"""The observer that writes all log sentences. INFO needs a human, or reassures one. Never a payload or a key."""

import logging
from collections.abc import Collection
from typing import Any

from asyncq.domain import events as on
from asyncq.engine.base.records import LOGGER, job_fields, write
from asyncq.log import cron, jobs, workers

_SENTENCES = {**workers.SENTENCES, **cron.SENTENCES, **jobs.SENTENCES}
_QUIET: tuple[type[on.Event], ...] = (on.JobsFetched, on.JobStarted, on.JobCompleted, on.JobSnoozed)


class LogObserver:
    """Writes events to the logger `asyncq`; events of every job only if DEBUG is enabled at the start."""

    @property
    def wants(self) -> Collection[type[on.Event]]:
        """All events that have a sentence at the logger's level."""
        loud = [kind for kind in _SENTENCES if kind not in _QUIET]
        return [*loud, *_QUIET] if logging.getLogger(LOGGER).isEnabledFor(logging.DEBUG) else loud

    def __call__(self, event: on.Event, /) -> None:
        level, sentence = _SENTENCES[type(event)]
        if getattr(event, "failures", 1) > 1 and not isinstance(event, on.PartRecovered):
            level = logging.DEBUG  # The first failure of an outage was logged; the line at its end has their number.
        fields: dict[str, Any] = {"asyncq_event": type(event).__name__}
        if isinstance(event, on.JobEvent):
            fields |= job_fields(event.claim, event.task, event.worker_id)
            if (duration_s := getattr(event, "duration_s", None)) is not None:
                fields["duration_s"] = duration_s
        template, *arguments = sentence(event)
        write(LOGGER, level, template, arguments, fields, event.exception, _traceback(event))


def _traceback(event: on.Event) -> str | None:
    """The traceback that an event has as text; to format it again takes longer than to settle the failed job."""
    if event.exception is None or not isinstance(event, on.JobRetried | on.JobDiscarded):
        return None
    text = event.error.partition("\n\n")[2].rstrip("\n")
    return text if "Traceback (most recent call last)" in text else None
