"""Suggests asyncq's name for a word of another library, or the most similar known word."""

import difflib
from collections.abc import Collection, Mapping

_RUN_AT = "run_at= is the time before which it does not start: datetime.now(UTC) + timedelta(seconds=5)"
_TIMEOUT = "timeout= limits the time of one attempt: '30 s', or Timeout(soft='20 s', hard='30 s')"
_EXPIRES = "expires= is the time within which its first run has to start"
_ATTEMPTS = "max_attempts= counts all attempts, the first one too"
_KEYS = "job_key= names a job, idempotency_key= a request, unique= has a rule"
_CONCURRENCY = "concurrency= limits how many run at once: 20, or Limit(3, by='tenant_id')"

JOB_OPTIONS = {
    **dict.fromkeys(("at", "countdown", "defer_by", "defer_until", "delay", "eta", "not_before", "schedule"), _RUN_AT),
    **dict.fromkeys(("schedule_at", "schedule_in", "scheduled_at", "start_at", "start_after"), _RUN_AT),
    **dict.fromkeys(("job_timeout", "max_runtime", "soft_time_limit", "soft_timeout", "time_limit"), _TIMEOUT),
    **dict.fromkeys(("expire", "expires_at", "expires_in", "ttl"), _EXPIRES),
    **dict.fromkeys(("attempts", "max_retries", "max_tries", "retries", "retry_limit"), _ATTEMPTS),
    **dict.fromkeys(("_job_id", "dedupe_key", "job_id", "key", "task_id", "unique_key"), _KEYS),
    **dict.fromkeys(("backoff", "default_retry_delay", "retry", "retry_delay"), "@task(retry=...) has the waits"),
    **dict.fromkeys(("labels", "metadata", "tags"), "meta= is an object that is stored with the job, flags= are names"),
    **dict.fromkeys(("queue_name", "queueing_lock", "lock"), "queue= runs its jobs one after the other"),
}

TASK_OPTIONS = JOB_OPTIONS | {
    **dict.fromkeys(("backoff", "default_retry_delay", "retry_backoff", "retry_delay"), "retry= has the waits"),
    **dict.fromkeys(("crontab", "periodic", "schedule"), "cron= is the schedule by which workers add jobs"),
    **dict.fromkeys(("concurrency_limit", "limit", "max_concurrency"), _CONCURRENCY),
    **dict.fromkeys(("rate_limit", "throttle"), "rate= limits how many start in a time: Rate(100, per='1 min')"),
    "identifier": "name= is the identifier in the database",
}

# The methods by which tasks of other libraries add a job.
ADDING = frozenset(
    ["apply_async", "defer", "defer_async", "delay", "enqueue", "kiq", "perform_async", "schedule", "send"]
)

STATES = {
    **dict.fromkeys(("canceled", "revoked"), "cancelled"),
    **dict.fromkeys(("claimed", "doing", "executing", "in_progress", "locked", "processing", "running"), "active"),
    **dict.fromkeys(("dead", "error", "failed", "failure"), "discarded"),
    **dict.fromkeys(("done", "finished", "succeeded", "success"), "completed"),
    **dict.fromkeys(("created", "queued", "ready", "todo", "waiting"), "available"),
    **dict.fromkeys(("deferred", "delayed"), "scheduled"),
    **dict.fromkeys(("retry", "retrying"), "retryable"),
}


def hint(word: str, known: Collection[str], others: Mapping[str, str] | None = None) -> str:
    """The end of the sentence that refuses a word: text that begins with `; `, empty if no known word is similar.

    `others` are words of other libraries, each with a text, or with a valid word.
    """
    found = (others or {}).get(word)
    if found is not None and found not in known:
        return f"; {found}"
    near = [found] if found is not None else difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
