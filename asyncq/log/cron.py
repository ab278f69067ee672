"""The sentences about recurring jobs."""

from __future__ import annotations

import logging

from asyncq.domain import events as on
from asyncq.log.sentences import ids, names, said

SENTENCES = [
    said(
        on.CronStarted,
        logging.INFO,
        lambda e: ("schedules %s recurring items: %s", len(e.items), names(e.items)),
    ),
    said(
        on.CronBackfilled,
        logging.INFO,
        lambda e: (
            "made up for missed slots of recurring items (%s): %s jobs, %s",
            names(e.items),
            len(e.job_ids),
            ids(e.job_ids),
        ),
    ),
    said(
        on.CronAdded,
        logging.DEBUG,
        lambda e: (
            "added %s jobs of recurring items (%s): %s",
            len(e.job_ids),
            names(e.items),
            ids(e.job_ids),
        ),
    ),
    said(
        on.CronItemFailed,
        logging.WARNING,
        lambda e: (
            "the recurring item %s failed, the others go on; next try in %.1f s: %s",
            repr(e.item),
            e.retry_in_s,
            e.error,
        ),
    ),
    said(
        on.CronItemsChanged,
        logging.INFO,
        lambda e: (
            "stored recurring items have changed; scheduled anew: %s; gone: %s",
            names(e.items),
            names(e.gone),
        ),
    ),
    said(
        on.CronItemRefused,
        logging.WARNING,
        lambda e: (
            "the stored recurring item %s cannot be scheduled, the others are: %s",
            repr(e.item),
            e.error,
        ),
    ),
    said(
        on.CronItemShadowed,
        logging.WARNING,
        lambda e: (
            "the stored recurring item %s waits: this worker's own crontab has an item of that identifier",
            repr(e.item),
        ),
    ),
    said(
        on.CronFailed,
        logging.WARNING,
        lambda e: ("recurring jobs cannot be added; next try in %.1f s: %s", e.retry_in_s, e.error),
    ),
    said(
        on.CronClockJumped,
        logging.WARNING,
        lambda e: (
            (
                (
                    "the clock was looked at %.0f s too late, recurring jobs of the last hour are made up for; was "
                    "this machine asleep, the event loop blocked, or the server's clock set?"
                ),
                e.by_s,
            )
            if e.by_s > 0
            else ("the server's clock went back by %.0f s: no recurring job is added twice", -e.by_s)
        ),
    ),
    said(
        on.UnknownCronTasks,
        logging.WARNING,
        lambda e: ("recurring items name tasks that this worker does not know: %s", names(e.names)),
    ),
]
