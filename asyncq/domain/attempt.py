"""The attempts of jobs that failed, as they are recorded."""

from datetime import datetime
from typing import Literal

import msgspec

AttemptKind = Literal["failed", "lost", "interrupted", "aborted"]
"""How an attempt failed.

    failed       the handler raised, or the payload did not fit
    lost         its worker died, or was unlocked by force
    interrupted  shutdowns cut it off too often
    aborted      its transaction was rolled back too often
"""


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt that failed.

    Attributes:
        number: The number of the attempt; the first is 1, also after `retry_jobs`.
        kind: `failed`: its handler raised. `lost`: its worker died, or was unlocked by force. `interrupted`: shutdowns
            cut it off eleven times in a row. `aborted`: its transaction was rolled back eleven times in a row.
        started_at: When the handler began; for a lost attempt, when its worker claimed the job.
        ended_at: When its end was written.
        worker_id: The id of its worker.
        error: The error as in `last_error`, cut in the middle to 4,000 characters.
    """

    number: int
    kind: AttemptKind
    started_at: datetime
    ended_at: datetime
    worker_id: int
    error: str
