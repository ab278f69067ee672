"""The states of a job."""

from enum import StrEnum


class JobState(StrEnum):
    """The eight states of the Open Job Spec; prose may say waiting, running, failed."""

    SCHEDULED = "scheduled"
    AVAILABLE = "available"
    ACTIVE = "active"
    RETRYABLE = "retryable"
    PENDING = "pending"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    DISCARDED = "discarded"
