"""Results of jobs: how a worker writes them, how a client reads them, and the end of a job that was awaited."""

from typing import Any, Protocol

import msgspec

from asyncq.domain.constraints import has_schema
from asyncq.domain.envelope import MARK
from asyncq.domain.errors import InvalidJob, JobCancelledError, JobFailedError, ResultUnavailable
from asyncq.domain.models.adapter import Adapter, Unreadable, library
from asyncq.domain.payload import LARGEST_PAYLOAD, encode
from asyncq.domain.states import JobState

DEFAULT_MAX_RESULT = 1024 * 1024
LARGEST_RESULT = LARGEST_PAYLOAD


class UnwritableResult(ValueError):
    """A result cannot be stored; the message has the reason."""


class RefusedResult:
    """A result that a process could not send to its worker, with the reason."""

    def __init__(self, type_name: str, reason: str) -> None:
        self.type_name = type_name
        self.reason = reason

    def __repr__(self) -> str:
        return f"<RefusedResult of type {self.type_name}: {self.reason}>"


class ResultType:
    """Writes and reads the results of a task, by the return annotation of its handler. None: any type."""

    def __init__(self, annotation: Any) -> None:
        self._adapter: Adapter | None = None
        self._fault = ""
        try:
            if library() is not None and has_schema(annotation):
                self._adapter = Adapter(annotation)
            self._read = msgspec.json.Decoder(Any if self._adapter else annotation).decode
        except (Unreadable, TypeError, ValueError, NameError, RecursionError) as error:
            self._fault = f"the return type of the handler cannot be read from JSON: {error}"

    def write(self, result: Any, limit: int) -> str:
        """Write a result as JSON text of at most `limit` bytes; UnwritableResult if that is not possible."""
        if result is None:
            return "null"
        if isinstance(result, RefusedResult):
            raise UnwritableResult(result.reason)
        if self._fault:
            raise UnwritableResult(self._fault)
        try:
            if self._adapter is None:
                return encode(result, field="result", limit=limit)
            text = self._adapter.encode(result, field="result", limit=limit)
        except InvalidJob as error:
            raise UnwritableResult(str(error)) from error
        self.read(text)
        return text

    def read(self, text: str) -> Any:
        """Read a result; UnwritableResult if it does not fit the type, as that of another version of the handler."""
        if self._fault:
            raise UnwritableResult(self._fault)
        try:
            return self._read(text) if self._adapter is None else self._adapter.decode(text)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise UnwritableResult(f"the result does not fit the return type of the handler: {error}") from error


class HasResults(Protocol):
    """The signature of a handler."""

    @property
    def results(self) -> ResultType: ...


_ANY = ResultType(Any)


class Returns:
    """How the result of a job is read, whether its task keeps it, and the channel on which its end is notified.

    `place` is that of a job in its workflow, which is added in one call; the first is 1. It counts in no comparison,
    since it is no part of the stored job: specs of the same job are equal. A copy in another process has none of them.
    """

    __slots__ = ("_signature", "is_kept", "place", "watcher")

    def __init__(
        self,
        signature: HasResults | None = None,
        *,
        is_kept: bool = False,
        watcher: str | None = None,
        place: int | None = None,
    ) -> None:
        self._signature = signature
        self.is_kept = is_kept
        self.watcher = watcher
        self.place = place

    @property
    def results(self) -> ResultType:
        """The type of the results; TaskError if the return annotation cannot be read."""
        return _ANY if self._signature is None else self._signature.results

    def watched_on(self, channel: str) -> "Returns":
        """The same, with a channel."""
        return Returns(self._signature, is_kept=self.is_kept, watcher=channel)

    def placed_at(self, place: int) -> "Returns":
        """The same, of a job of a workflow."""
        return Returns(self._signature, is_kept=self.is_kept, place=place)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Returns)

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "..."

    def __reduce__(self) -> tuple[type["Returns"], tuple[()]]:
        return Returns, ()

    def __deepcopy__(self, _: Any) -> "Returns":
        return self


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a job, as `Client.wait_for` returns it.

    Attributes:
        id: The id of the job.
        task: The name of its task.
        state: `completed`, `cancelled` or `discarded`.
        attempts: The number of its attempts.
        result: What its handler returned, as JSON text. None if that is not stored, or it has not completed.
        error: Its last error, as text. If it has completed, the reason why its result is not stored. None without one.
    """

    id: int
    task: str
    state: JobState
    attempts: int
    result: str | None = None
    error: str | None = None


class _Document(msgspec.Struct):
    """A job as `_watch` and its notification describe it; without a state the notification had no room."""

    id: int
    state: str | None = None
    task: str = ""
    attempts: int = 0
    has_result: bool = False
    result: msgspec.Raw = msgspec.Raw(b"null")
    error: str | None = None


_read_document = msgspec.json.Decoder(_Document).decode


def read_document(text: str) -> tuple[int, Ended | None, str | None]:
    """Read what SQL says of a job: its id; its end; its state, as `_watch` describes it. Raises msgspec's errors."""
    found = _read_document(text)
    if found.state in {None, "waiting", "busy"}:
        return found.id, None, found.state
    ended = Ended(
        id=found.id,
        task=found.task,
        state=JobState(found.state),
        attempts=found.attempts,
        result=bytes(found.result).decode() if found.has_result else None,
        error=found.error,
    )
    return found.id, ended, found.state


def result_of(ended: Ended, returns: Returns) -> Any:
    """The result of a job that has ended.

    JobFailedError or JobCancelledError if it has not completed, ResultUnavailable if its result is not stored.
    """
    if ended.state == JobState.DISCARDED:
        raise JobFailedError(ended.id, ended.task, ended.attempts, ended.error or "")
    if ended.state == JobState.CANCELLED:
        raise JobCancelledError(ended.id, ended.task)
    if ended.result is None:
        raise ResultUnavailable(ended.id, ended.error or "it has completed, and its result was not stored")
    if ended.result.startswith(MARK):
        raise ResultUnavailable(ended.id, "it is encoded, and this client has no codec that decodes it")
    try:
        return returns.results.read(ended.result)
    except UnwritableResult as error:
        raise ResultUnavailable(ended.id, str(error)) from error
