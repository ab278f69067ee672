"""The options of a job that waits for others: `after`, `if_failed`."""

from collections.abc import Iterable
from typing import Any, Literal, Protocol, cast, get_args

from asyncq.domain.errors import InvalidJob

AFTER_CODE = "GWBAF"
MOST_AFTER = 100_000
LARGEST_ID = 2**63 - 1

IfFailed = Literal["wait", "cancel", "run"]
Takes = Literal["result", "results"]


class HasId(Protocol):
    """An added job: an `Added` or a `Handle`."""

    @property
    def id(self) -> int: ...


def as_after(given: Iterable[int | HasId]) -> tuple[int, ...]:
    """Read the option `after`: the ids, each once, in order. InvalidJob if it is not valid."""
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise _invalid(f"after must be a list of ids or handles of jobs, got {given!r}")
    ids = tuple(dict.fromkeys(_id_of(one) for one in given))
    check_after(ids)
    return ids


def check_after(ids: Any) -> None:
    """Raise InvalidJob unless `ids` are the ids of jobs that a spec may have."""
    if not isinstance(ids, tuple):
        raise _invalid(f"after of a JobSpec must be a tuple of ids of jobs, got {ids!r}")
    for one in cast("tuple[Any, ...]", ids):
        # A place in the same call is negative.
        _id_of(-one if isinstance(one, int) and -MOST_AFTER <= one < 0 else one)
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


def check_takes(takes: Any, takes_as: Any, after: tuple[int, ...]) -> None:
    """Raise InvalidJob unless the fields `takes` and `takes_as` go with `after`."""
    if takes is None and takes_as is None:
        return
    fault = None
    if takes is None:
        fault = "takes_as names a member of the payload: it needs takes"
    elif takes not in get_args(Takes):
        fault = f"takes must be result or results, got {takes!r}"
    elif takes == "result" and len(after) != 1:
        fault = f"takes is result, which is that of one job, and after has {len(after)} ids"
    elif not after:
        fault = "takes needs the ids of jobs in after, and there are none"
    elif len(set(after)) < len(after):
        fault = "after names a job twice: with takes each has one place"
    elif takes_as is not None and (not isinstance(takes_as, str) or not takes_as):
        fault = "takes_as must be the name of a member of the payload"
    if fault is not None:
        raise InvalidJob(fault, code=AFTER_CODE, field=fault.partition(" ")[0])


def _id_of(one: Any) -> int:
    found: Any = one if isinstance(one, int) else getattr(one, "id", None)
    if not isinstance(found, int) or isinstance(found, bool) or not 1 <= found <= LARGEST_ID:
        raise _invalid(f"after must have ids or handles of jobs only, got {one!r}")
    return found


def _invalid(said: str) -> InvalidJob:
    return InvalidJob(said, code=AFTER_CODE, field="after")
