"""Unique jobs as the Open Job Spec defines them: the policy, and a job's key under it.

Pure: the store looks for the jobs that have the key. sql/functions/unique/check_policy.sql and
sql/functions/add/new_job.sql are the same rules in SQL. Every error is `InvalidJob` with the code GWBUP. Its field is
the member of the policy that breaks a rule, such as `unique.period`, or the part of the job without a canonical form:
type, queue, args or meta.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from datetime import timedelta
from enum import StrEnum
from typing import Any, NoReturn, Self
from unicodedata import normalize

import msgspec

from asyncq.domain.canonical import NotCanonical, nfc_names, parse, quote, write
from asyncq.domain.duration import parse_duration, write_duration
from asyncq.domain.errors import InvalidJob
from asyncq.domain.states import JobState

UNIQUE_CODE = "GWBUP"

DIMENSIONS = ("type", "queue", "args", "meta")
DEFAULT_STATES = (JobState.AVAILABLE, JobState.ACTIVE, JobState.SCHEDULED, JobState.RETRYABLE, JobState.PENDING)

# The queue of a job without a queue, in keys; no real queue can have this name.
NO_QUEUE = "default"


class OnConflict(StrEnum):
    """The effect of an add when another job has its key."""

    REJECT = "reject"
    REPLACE = "replace"
    REPLACE_EXCEPT_SCHEDULE = "replace_except_schedule"
    IGNORE = "ignore"


class UniquePolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs conflict with each other, and what an add does then.

    Attributes:
        keys: The parts of a job that form its key: `"type"`, `"queue"`, `"args"` (the payload) and `"meta"`;
            `["type"]` by default. The type is always included. A job without a queue has the queue `default` here.
        args_keys: The members of the payload that are included; None, the default, includes all, an empty list none.
        meta_keys: The members of `meta` that are included; required if `keys` has `"meta"`.
        period: How long after its creation a job conflicts with others: an ISO 8601 duration such as `"PT1H"`, or a
            timedelta; at most 36,600 days, counted in UTC. None, the default, is as long as it is in one of the states.
        states: The states in which a job conflicts with others; by default all in which it has not ended.
        on_conflict: `"reject"` (the default) refuses the new job, `"ignore"` drops it, `"replace"` cancels the other
            one. `"replace_except_schedule"` also takes over its time if it was scheduled.

    Raises:
        InvalidJob: With the code GWBUP: a member breaks a rule.

    Source: the Open Job Spec, unique jobs, sections 2, 6.2 and 7.2.
    """

    keys: Collection[str] = ("type",)
    args_keys: Collection[str] | None = None
    meta_keys: Collection[str] | None = None
    period: str | timedelta | None = None
    states: Collection[JobState | str] = DEFAULT_STATES
    on_conflict: OnConflict | str = OnConflict.REJECT

    def __post_init__(self) -> None:
        self._set("keys", _listed("keys", self.keys, DIMENSIONS))
        for name in ("args_keys", "meta_keys"):
            given = getattr(self, name)
            self._set(name, None if given is None else _listed(name, given))
        self._set("states", tuple(map(JobState, _listed("states", self.states, tuple(JobState)))))
        self._set("period", _period(self.period))
        if self.on_conflict not in tuple(OnConflict):
            _refuse("on_conflict", f"is {_shown(self.on_conflict)}, expected {_alternatives(OnConflict)}")
        self._set("on_conflict", OnConflict(self.on_conflict))
        if "meta" in self.keys and not self.meta_keys:
            _refuse("meta_keys", "is missing or empty, but keys holds 'meta': name the members of meta that count")

    def _set(self, name: str, value: Any) -> None:
        msgspec.structs.force_setattr(self, name, value)

    @classmethod
    def parse(cls, policy: Any) -> Self:
        """Make a policy from its JSON object.

        Args:
            policy: A mapping of the members; a missing one, or None, has its default.

        Returns:
            The policy.

        Raises:
            InvalidJob: With the code GWBUP: it is not a mapping, a member is unknown, or a member breaks a rule.
        """
        if not isinstance(policy, Mapping):
            raise InvalidJob(f"unique must be an object, got {_shown(policy)}", code=UNIQUE_CODE, field="unique")
        members: Mapping[Any, Any] = policy  # pyright: ignore[reportUnknownVariableType]
        given = {str(name): value for name, value in members.items()}
        if unknown := given.keys() - {*cls.__struct_fields__}:
            said = f"unique has no member {min(unknown)!r}; there are {', '.join(cls.__struct_fields__)}"
            raise InvalidJob(said, code=UNIQUE_CODE, field="unique")
        return cls(**{name: value for name, value in given.items() if value is not None})

    def canonical(self, *, type: str, queue: str | None = None, args: Any = None, meta: Any = None) -> str:  # noqa: A002
        """The parts of a job that form its key, as canonical JSON: jobs with equal texts conflict.

        Args:
            type: The task's identifier.
            queue: The queue; None, the default, for a job without one.
            args: The payload. If `args_keys` names members, it is an object, or an array with one object. A str is
                JSON text, any other value is encoded; None, the default, means `{}`.
            meta: The meta of the job, an object, in the same forms.

        Returns:
            The text (RFC 8785, strings in NFC).

        Raises:
            InvalidJob: With the code GWBUP. A member that the policy names is missing, an integer is not a double,
                args or meta is nested more than 64 levels deep, or is not JSON.

        Source: the Open Job Spec, unique jobs, section 4.
        """
        ending = f'"type":{quote(_storable("type", type))}}}'
        start = "{"
        # Named members of args must exist, even if keys does not include args.
        if "args" in self.keys or self.args_keys:
            text = _dimension("args", args, self.args_keys)
            if "args" in self.keys:
                start += f'"args":{text},'
        if "meta" in self.keys:
            start += f'"meta":{_dimension("meta", meta, self.meta_keys)},'
        if "queue" in self.keys:
            start += f'"queue":{quote(_storable("queue", NO_QUEUE if queue is None else queue))},'
        return start + ending

    def key(self, *, type: str, queue: str | None = None, args: Any = None, meta: Any = None) -> str:  # noqa: A002
        """The key of a job under this policy. Protect it as the payload: log it at DEBUG at most.

        Args:
            type: The task's identifier.
            queue: The queue; None, the default, for a job without one.
            args: The payload, as `canonical` takes it.
            meta: The meta of the job, as `canonical` takes it.

        Returns:
            The SHA-256 of the canonical text, 64 lower-case hexadecimal digits.

        Raises:
            InvalidJob: As `canonical`.
        """
        return hashlib.sha256(self.canonical(type=type, queue=queue, args=args, meta=meta).encode()).hexdigest()


def _dimension(field: str, given: Any, names: Collection[str] | None) -> str:
    """The canonical text of args or meta: the whole, or an object of the named members."""
    if names is not None and not names:
        return "{}"
    try:
        value = parse("{}" if given is None else given, field=field)
        # The Open Job Spec's core has args in an array.
        if names and field == "args" and value.__class__ is list and len(value) == 1:
            value = value[0]
        held = nfc_names(value) if names else ()
        for name in names or ():
            if name not in held:
                _refuse(f"{field}_keys", f"names {name!r}, which {field} does not hold")
        return write(value, field, only=names)
    except NotCanonical as error:
        raise InvalidJob(str(error), code=UNIQUE_CODE, field=field) from error


def _listed(name: str, given: Any, allowed: Collection[str] | None = None) -> tuple[str, ...]:
    """The items of a member that is a list: distinct strings in NFC."""
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        _refuse(name, f"must be a list of strings, got {_shown(given)}")
    items: list[str] = []
    for item in given:  # pyright: ignore[reportUnknownVariableType]
        if not isinstance(item, str):
            _refuse(name, f"must be a list of strings, got {_shown(item)} in it")
        if allowed is not None and item not in allowed:
            _refuse(name, f"holds {_shown(item)}, expected {_alternatives(allowed)}")
        if not item:
            _refuse(name, "holds an empty string")
        items.append(normalize("NFC", _storable(f"unique.{name}", item)))
    # Policies are compared by their text, and the order of a set differs between processes.
    if isinstance(given, AbstractSet):
        items.sort()
    if len(set(items)) != len(items):
        _refuse(name, "holds the same string twice")
    return tuple(items)


def _period(given: Any) -> str | None:
    if given is None:
        return None
    if not isinstance(given, str | timedelta):
        said = f"must be an ISO 8601 duration such as 'PT1H', or a timedelta, got {_shown(given)}"
        _refuse("period", f"{said}; a number has no unit")
    try:
        text = write_duration(given) if isinstance(given, timedelta) else str(given)
        parse_duration(text)
    except ValueError as error:
        _refuse("period", str(error), error)
    return text


def _storable(field: str, text: Any) -> str:
    if not isinstance(text, str):
        raise InvalidJob(f"{field} must be a str, got {_shown(text)}", code=UNIQUE_CODE, field=field)
    if not text.isprintable() and ("\0" in text or any("\ud800" <= char <= "\udfff" for char in text)):
        said = f"{field} holds a character that PostgreSQL cannot store as text"
        raise InvalidJob(said, code=UNIQUE_CODE, field=field)
    return text


def _refuse(name: str, said: str, cause: Exception | None = None) -> NoReturn:
    raise InvalidJob(f"unique.{name} {said}", code=UNIQUE_CODE, field=f"unique.{name}") from cause


def _alternatives(words: Iterable[str]) -> str:
    return "one of " + ", ".join(repr(str(word)) for word in words)


def _shown(value: Any) -> str:
    return repr(value)[:60]
