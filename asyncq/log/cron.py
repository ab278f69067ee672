"""The sentences about recurring jobs."""

import logging

from asyncq.domain import events as on
from asyncq.log.sentences import Table, debug, info, warning

_LATE = (
    "the clock was read %.0f s too late, recurring jobs of the last hour are added now; was this machine asleep, the "
    "event loop blocked, or the server's clock set?"
)
_BACK = "the server's clock went back by %.0f s: no recurring job is added twice"

SENTENCES: Table = {
    on.CronStarted: info("schedules %(count)s recurring items: %(items)s", count=lambda e: len(e.items)),
    on.CronBackfilled: info(
        "filled missed slots of recurring items (%(items)s): %(count)s jobs, %(job_ids)s",
        count=lambda e: len(e.job_ids),
    ),
    on.CronAdded: debug(
        "added %(count)s jobs of recurring items (%(items)s): %(job_ids)s", count=lambda e: len(e.job_ids)
    ),
    on.CronItemFailed: warning(
        "the recurring item %(item)s failed, the others continue; next try in %(retry_in_s).1f s: %(error)s",
        item=lambda e: repr(e.item),
    ),
    on.CronItemsChanged: info("stored recurring items have changed; scheduled now: %(items)s; removed: %(gone)s"),
    on.CronItemRefused: warning(
        "the stored recurring item %(item)s cannot be scheduled; the others are not affected: %(error)s",
        item=lambda e: repr(e.item),
    ),
    on.CronItemShadowed: warning(
        "the stored recurring item %(item)s waits, because this worker's own crontab has an item of that identifier",
        item=lambda e: repr(e.item),
    ),
    on.CronFailed: warning("recurring jobs cannot be added; next try in %(retry_in_s).1f s: %(error)s"),
    on.CronClockJumped: (logging.WARNING, lambda e: (_LATE, e.by_s) if e.by_s > 0 else (_BACK, -e.by_s)),
    on.UnknownCronTasks: warning("recurring items name tasks that this worker does not know: %(names)s"),
}
