"""Answers of the API: JSON values, errors as those of the command line, and the time of the database."""

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from time import perf_counter
from typing import Any, TypeVar

import msgspec
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import Response

from asyncq.domain.errors import (
    AccessDenied,
    AsyncqError,
    ConfigurationError,
    CronItemConflict,
    CronItemNotFound,
    InvalidJob,
    JobNotFound,
    StoreError,
    TransactionUnusable,
)

AnswerT = TypeVar("AnswerT")
Handler = Callable[[Request], Awaitable[Any]]
_database_s: ContextVar[list[float]] = ContextVar("database_s")


class Refused(Exception):
    """A request is refused.

    Attributes:
        status: The HTTP status.
        message: The reason, for the user.
        retry_after_s: The user may ask again after so many seconds; None: the same request is refused again.
    """

    def __init__(self, status: int, message: str, retry_after_s: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.retry_after_s = retry_after_s


async def timed(call: Awaitable[AnswerT]) -> AnswerT:
    """Await a call of the database, whose time is in the answer's `Server-Timing`."""
    started_at = perf_counter()
    try:
        return await call
    finally:
        spent = _database_s.get(None)
        if spent is not None:
            spent[0] += perf_counter() - started_at


def endpoint(handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    """Make an endpoint of a function that returns a value or a response; its errors become answers."""

    async def answer(request: Request) -> Response:
        spent = [0.0]
        token = _database_s.set(spent)
        try:
            value = await handler(request)
        except Refused as refused:
            value = refusal(refused)
        except AsyncqError as error:
            value = document({"error": _described(error)}, status_of(error))
        finally:
            _database_s.reset(token)
        response = value if isinstance(value, Response) else document(value)
        response.headers["server-timing"] = f"db;dur={spent[0] * 1000:.1f}"
        return response

    return answer


def document(value: Any, status: int = 200, background: BackgroundTask | None = None) -> Response:
    """A value as JSON; `background` is run after the answer."""
    return Response(msgspec.json.encode(value), status, media_type="application/json", background=background)


def refusal(refused: Refused) -> Response:
    """The answer to a request that is refused."""
    response = document({"error": {"type": "Refused", "message": refused.message, "code": None}}, refused.status)
    if refused.retry_after_s is not None:
        response.headers["retry-after"] = str(refused.retry_after_s)
    return response


def _described(error: AsyncqError) -> dict[str, str | None]:
    code = getattr(error, "code", None) or getattr(error, "sqlstate", None)
    return {"type": type(error).__name__, "message": str(error), "code": code, "field": getattr(error, "field", None)}


def status_of(error: AsyncqError) -> int:
    """The HTTP status of an error."""
    if isinstance(error, JobNotFound | CronItemNotFound):
        return 404
    if isinstance(error, AccessDenied):
        return 403
    if isinstance(error, CronItemConflict | TransactionUnusable):
        return 409
    if isinstance(error, InvalidJob | ConfigurationError):
        return 422
    return 503 if isinstance(error, StoreError) else 500


def body_of(body: bytes, shape: type[AnswerT]) -> AnswerT:
    """Decode a body of JSON; refuses one of another shape with the reason."""
    try:
        return msgspec.json.decode(body or b"{}", type=shape)
    except msgspec.DecodeError as error:
        raise Refused(422, f"the body is not valid: {error}") from error
