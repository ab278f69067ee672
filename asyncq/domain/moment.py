"""Moments as the server stores them, in microseconds since 2000: decoding a datetime for each job would cost more."""

from datetime import UTC, datetime, timedelta

_BEGIN = datetime(2000, 1, 1, tzinfo=UTC)
MOMENTS_BEGIN_S = _BEGIN.timestamp()  # in seconds since 1970
_MICROSECOND = timedelta(microseconds=1)


def moment_of(at: datetime) -> int:
    """The moment of a datetime with a time zone."""
    return (at - _BEGIN) // _MICROSECOND


def datetime_of(moment: int) -> datetime:
    """A moment as a datetime in UTC."""
    return _BEGIN + timedelta(microseconds=moment)


def read_moment(sent: bytes) -> int:
    """A moment as the server sends it: eight bytes, the greatest first."""
    return int.from_bytes(sent, "big", signed=True)


def instant_text(at: datetime) -> str:
    """A datetime as text, in UTC: PostgreSQL cannot read an offset with seconds, which some old zones have."""
    return at.astimezone(UTC).isoformat()
