"""The options of a job that waits for others: `after`, `if_failed`."""

from collections.abc import Iterable
from typing import Any, Literal, Protocol, cast, get_args

from asyncq.domain.errors import InvalidJob

AFTER_CODE = "GWBAF"
MOST_AFTER = 100_000
LARGEST_ID = 2**63 - 1

IfFailed = Literal["wait", "cancel", "run"]


class HasId(Protocol):
    """An added job: an `Added` or a `Handle`."""

    @property
    def id(self) -> int: ...


def as_after(given: Iterable[int | HasId]) -> tuple[int, ...]:
    """Read the option `after`: the ids, each once, in order. InvalidJob if it is not valid."""
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise _invalid(f"after must be a list of ids or handles of jobs, got {given!r}")
    ids = tuple(sorted({_id_of(one) for one in given}))
    check_after(ids)
    return ids


def check_after(ids: Any) -> None:
    """Raise InvalidJob unless `ids` are the ids of jobs that a spec may have."""
    if not isinstance(ids, tuple):
        raise _invalid(f"after of a JobSpec must be a tuple of ids of jobs, got {ids!r}")
    for one in cast("tuple[Any, ...]", ids):
        _id_of(one)
    if len(cast("tuple[Any, ...]", ids)) > MOST_AFTER:
        count = len(cast("tuple[Any, ...]", ids))
        raise InvalidJob(
            f"after has {count} ids, at most {MOST_AFTER} are allowed",
            code=AFTER_CODE,
            field="after",
            limit=MOST_AFTER,
            length=count,
        )


def check_if_failed(given: Any) -> None:
    """Raise InvalidJob unless the option `if_failed` is one of its three words."""
    if given not in get_args(IfFailed):
        raise InvalidJob(f"if_failed must be wait, cancel or run, got {given!r}", code=AFTER_CODE, field="if_failed")


def _id_of(one: Any) -> int:
    found: Any = one if isinstance(one, int) else getattr(one, "id", None)
    if not isinstance(found, int) or isinstance(found, bool) or not 1 <= found <= LARGEST_ID:
        raise _invalid(f"after must have ids or handles of jobs only, got {one!r}")
    return found


def _invalid(said: str) -> InvalidJob:
    return InvalidJob(said, code=AFTER_CODE, field="after")
