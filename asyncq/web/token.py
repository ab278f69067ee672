"""The token of a dashboard that stands by itself: in its first address, then in a cookie; for programs as a bearer."""

import hashlib
import hmac
from collections import deque
from collections.abc import Callable, MutableMapping
from time import monotonic
from typing import Any, Literal
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from asyncq.domain.errors import ConfigurationError
from asyncq.web.answers import Refused, refusal

LEAST = 32
COOKIE = "asyncq"
MOST_WRONG = 10
WITHIN_S = 60.0


class TokenDoor:
    """Lets in the users that know a token.

    The first address has it as `?token=`; it is exchanged for a cookie, and leaves the address. Ten wrong tokens within
    a minute from one address are the last ones of that minute. Texts are compared in constant time.

    Raises ConfigurationError for a token of less than 32 characters.
    """

    def __init__(self, token: str, level: Literal["read", "write"], clock: Callable[[], float] = monotonic) -> None:
        if len(token) < LEAST:
            raise ConfigurationError(f"the token of the dashboard must have at least {LEAST} characters")
        self._token = token
        self._level: Literal["read", "write"] = level
        self._clock = clock
        self._cookie = hmac.new(token.encode(), b"asyncq dashboard", hashlib.sha256).hexdigest()
        self._wrong: dict[str, deque[float]] = {}

    def authorize(self, scope: MutableMapping[str, Any]) -> Literal["read", "write"] | None:
        """The access of a request: by its cookie, or by its bearer token."""
        request = Request(scope)
        if _same(request.cookies.get(COOKIE, ""), self._cookie):
            return self._level
        word, _, token = request.headers.get("authorization", "").partition(" ")
        if word.lower() != "bearer":
            return None
        return self._level if self._is_right(request, token) else None

    def around(self, app: ASGIApp) -> ASGIApp:
        """An application that exchanges the token of an address for the cookie."""

        async def with_login(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http" and b"token=" in scope.get("query_string", b""):
                answer = self._login(Request(scope))
                await answer(scope, receive, send)
                return
            try:
                await app(scope, receive, send)
            except Refused as refused:
                await refusal(refused)(scope, receive, send)

        return with_login

    def _login(self, request: Request) -> Response:
        (token, *_) = parse_qs(request.url.query).get("token", [""])
        try:
            is_right = self._is_right(request, token)
        except Refused as refused:
            return refusal(refused)
        if not is_right:
            return refusal(Refused(401, "wrong token: use the address that `asyncq dashboard` has printed"))
        answer = RedirectResponse("./", 303)
        secure = request.url.scheme == "https"
        answer.set_cookie(COOKIE, self._cookie, httponly=True, samesite="strict", secure=secure, path="/")
        answer.headers["cache-control"] = "no-store"
        answer.headers["referrer-policy"] = "no-referrer"
        return answer

    def _is_right(self, request: Request, token: str) -> bool:
        """Compare a token; raises Refused if the address has given too many wrong ones."""
        address = request.client.host if request.client else ""
        now = self._clock()
        wrong = self._wrong.setdefault(address, deque())
        while wrong and now - wrong[0] > WITHIN_S:
            wrong.popleft()
        if len(wrong) >= MOST_WRONG:
            raise Refused(429, "too many wrong tokens: wait a minute", int(WITHIN_S - (now - wrong[0])) + 1)
        if _same(token, self._token):
            del self._wrong[address]
            return True
        wrong.append(now)
        self._wrong = {place: times for place, times in self._wrong.items() if times and now - times[-1] <= WITHIN_S}
        return False


def _same(given: str, right: str) -> bool:
    return hmac.compare_digest(given.encode(), right.encode())
