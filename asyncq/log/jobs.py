"""The sentences about single jobs."""

from __future__ import annotations

import logging

from asyncq.domain import events as on
from asyncq.log.sentences import first_line, said


def _job(event: on.JobEvent) -> tuple[int, str, int, int]:
    """The values for `job %s (%s, attempt %s of %s)`."""
    return event.claim.id, event.task, event.attempt, event.claim.max_attempts


def _reason(event: on.JobDiscarded) -> str:
    """The error; without its traceback if the record has the exception."""
    return event.error if event.exception is None else first_line(event.error)


SENTENCES = [
    said(
        on.JobStarted,
        logging.DEBUG,
        lambda e: ("job %s (%s, attempt %s of %s) starts", *_job(e)),
    ),
    said(
        on.JobCompleted,
        logging.DEBUG,
        lambda e: ("job %s (%s, attempt %s of %s) completed in %.1f ms", *_job(e), e.duration_s * 1000),
    ),
    said(
        on.JobRetried,
        logging.WARNING,
        lambda e: (
            "job %s (%s, attempt %s of %s) failed, next try in %.1f s: %s",
            *_job(e),
            e.delay_s,
            first_line(e.error),
        ),
    ),
    said(
        on.JobDiscarded,
        logging.ERROR,
        lambda e: ("job %s (%s, attempt %s of %s) was discarded: %s", *_job(e), _reason(e)),
    ),
    said(
        on.JobSnoozed,
        logging.DEBUG,
        lambda e: ("job %s (%s, attempt %s of %s) snoozed for %.1f s", *_job(e), e.delay_s),
    ),
    said(
        on.JobCancelled,
        logging.INFO,
        lambda e: (
            "job %s (%s, attempt %s of %s) was cancelled after %.1f s%s",
            *_job(e),
            e.duration_s,
            f"; it raised {first_line(e.error)}" if e.error else "",
        ),
    ),
    said(
        on.JobInterrupted,
        logging.WARNING,
        lambda e: ("job %s (%s, attempt %s of %s) was interrupted and is due again", *_job(e)),
    ),
    said(
        on.TransactionAborted,
        logging.WARNING,
        lambda e: (
            (
                "the transaction of job %s (%s, attempt %s of %s) was aborted; next try in %.1f s, no attempt "
                "counted: %s"
            ),
            *_job(e),
            e.delay_s,
            first_line(e.error),
        ),
    ),
    said(
        on.JobLost,
        logging.WARNING,
        lambda e: (
            (
                "job %s (%s, attempt %s of %s) was no longer held by this worker when its run ended; what it came to "
                "was refused"
            ),
            *_job(e),
        ),
    ),
    said(
        on.HandlerStuck,
        logging.ERROR,
        lambda e: (
            (
                "job %s (%s, attempt %s of %s) runs on although it was cancelled %g s ago; its job stays claimed until "
                "it ends; it is at %s"
            ),
            *_job(e),
            e.stuck_s,
            e.stack.strip(),
        ),
    ),
    said(
        on.CommitUncertain,
        logging.WARNING,
        lambda e: (
            "what becomes of job %s (%s, attempt %s of %s) is not known yet, the server is asked: %s",
            *_job(e),
            e.error,
        ),
    ),
    said(
        on.TransactionOpen,
        logging.WARNING,
        lambda e: (
            (
                "job %s (%s, attempt %s of %s) has kept its transaction open for %.0f s: nothing that was deleted or "
                "changed since can be vacuumed; split the job, or do what takes long outside of the transaction"
            ),
            *_job(e),
            e.open_s,
        ),
    ),
    said(
        on.ErrorIgnored,
        logging.WARNING,
        lambda e: (
            "job %s (%s, attempt %s of %s) raised after it was completed, and stays completed: %s",
            *_job(e),
            first_line(e.error),
        ),
    ),
    said(
        on.ResultIgnored,
        logging.INFO,
        lambda e: ("task %s returned a value of type %s: results are not kept", e.task, e.type_name),
    ),
]
