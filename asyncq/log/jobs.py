"""The sentences about single jobs."""

from asyncq.domain import events as on
from asyncq.log.sentences import Table, debug, error, first_line, info, warning

_JOB = "job %(job_id)s (%(task)s, attempt %(attempt)s of %(claim.max_attempts)s)"

SENTENCES: Table = {
    on.JobStarted: debug(f"{_JOB} starts"),
    on.JobCompleted: debug(f"{_JOB} completed in %(ms).1f ms", ms=lambda e: e.duration_s * 1000),
    on.JobTimedOut: warning(f"{_JOB} was cancelled by its time limit of %(timeout_s)g s, after %(duration_s).1f s"),
    on.ItemsFailed: debug(f"%(failed)s of %(total)s items of {_JOB} failed; the others are done"),
    on.JobRetried: warning(f"{_JOB} failed, next try in %(delay_s).1f s: %(error)s", error=first_line),
    # Without the traceback if the record has the exception.
    on.JobDiscarded: error(
        f"{_JOB} was discarded: %(error)s", error=lambda e: e.error if e.exception is None else first_line(e)
    ),
    on.JobSnoozed: debug(f"{_JOB} snoozed for %(delay_s).1f s"),
    on.JobCancelled: info(
        f"{_JOB} was cancelled after %(duration_s).1f s%(raised)s",
        raised=lambda e: f"; it raised {first_line(e)}" if e.error else "",
    ),
    on.JobExpired: info(f"{_JOB} has expired, and ends as cancelled without a run"),
    on.JobInterrupted: warning(f"{_JOB} was interrupted and is due again"),
    on.TransactionAborted: warning(
        f"the transaction of {_JOB} was aborted; next try in %(delay_s).1f s, no attempt counted: %(error)s",
        error=first_line,
    ),
    on.JobLost: warning(f"{_JOB} was no longer held by this worker when its run ended; its result was refused"),
    on.HandlerStuck: error(
        f"{_JOB} still runs, although it was cancelled %(stuck_s)g s ago; it stays claimed until it ends; it is at "
        "%(stack)s",
        stack=lambda e: e.stack.strip(),
    ),
    on.CommitUncertain: warning(f"the end of {_JOB} is not known yet, the server is asked: %(error)s"),
    on.TransactionOpen: warning(
        f"{_JOB} has kept its transaction open for %(open_s).0f s: rows that were deleted or changed since then cannot "
        "be vacuumed; split the job, or do slow work outside of the transaction"
    ),
    on.ErrorIgnored: warning(f"{_JOB} raised after it was completed, and stays completed: %(error)s", error=first_line),
    on.JobsCollected: debug(
        "task %(task)s: %(count)s jobs in one call after %(waited_s).3f s: %(job_ids)s", count=lambda e: len(e.job_ids)
    ),
    on.StepDone: debug(f"step %(name)s of {_JOB} is done after %(duration_s).3f s"),
    on.ResultRefused: error(f"the result of {_JOB} is not stored, and the job completes without it: %(error)s"),
    on.ResultIgnored: info("task %(task)s returned a value of type %(type_name)s: results are not kept"),
}
