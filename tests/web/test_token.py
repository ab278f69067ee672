"""The token of a dashboard that stands by itself."""

import httpx
import pytest

from asyncq import Client, ConfigurationError
from asyncq.web import Dashboard
from asyncq.web.token import TokenDoor

TOKEN = "a-token-of-more-than-32-characters-in-all"


class Clock:
    """A clock that stands until it is moved."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def client_of(client: Client, clock: Clock) -> httpx.AsyncClient:
    """A browser before a dashboard with the token."""
    door = TokenDoor(TOKEN, "write", clock)
    app = door.around(Dashboard(client, authorize=door.authorize))
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test")


async def test_the_token_of_the_address_becomes_a_cookie(client: Client) -> None:
    """No script can read the cookie, no other site sends it, and the token is not in the address any more."""
    async with client_of(client, Clock()) as http:
        assert 401 == (await http.get("/")).status_code

        answer = await http.get(f"/?token={TOKEN}")

        assert (303, "./") == (answer.status_code, answer.headers["location"])
        cookie = answer.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert TOKEN not in cookie
        assert 200 == (await http.get("/api/me")).status_code


async def test_programs_send_the_token_as_a_bearer(client: Client) -> None:
    """Such as a scraper of metrics."""
    async with client_of(client, Clock()) as http:
        answer = await http.get("/api/me", headers={"authorization": f"Bearer {TOKEN}"})

        assert 200 == answer.status_code


@pytest.mark.parametrize("by", ["address", "bearer"])
async def test_after_ten_wrong_tokens_the_right_one_has_to_wait(client: Client, by: str) -> None:
    """For the rest of the minute; a browser that is in stays in."""
    clock = Clock()
    async with client_of(client, clock) as inside, client_of(client, clock):
        await inside.get(f"/?token={TOKEN}")

        async def attempt(token: str) -> httpx.Response:
            if by == "address":
                return await inside.get(f"/?token={token}")
            return await inside.get("/api/me", headers={"authorization": f"Bearer {token}", "cookie": ""})

        assert [401] * 10 == [(await attempt("wrong")).status_code for _ in range(10)]
        late = await attempt(TOKEN)
        assert 429 == late.status_code
        assert 0 < int(late.headers["retry-after"]) <= 61
        assert 200 == (await inside.get("/api/me")).status_code

        clock.now += 61
        assert (await attempt(TOKEN)).status_code in (200, 303)


def test_a_short_token_is_refused() -> None:
    """It could be guessed."""
    with pytest.raises(ConfigurationError, match="at least 32 characters"):
        TokenDoor("short", "read")
