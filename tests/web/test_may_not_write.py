"""A dashboard on a database that may not be written to: a standby, a role without the rights, a read-only role."""

from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager

import httpx
import pytest
from playwright.async_api import expect

from asyncq import Client, JobState
from asyncq.server import find_binaries
from asyncq.store.database import Database
from asyncq.store.roles import apply_monitor
from asyncq.web import Dashboard
from asyncq.web.live import Live
from asyncq.web.redaction import Redaction
from asyncq.web.site import RIGHTS_FOR_S, Site
from tests.crash.standby import Pair, has_pg_basebackup, streaming_pair
from tests.support.browser import page
from tests.support.roles import Roles, three_roles
from tests.support.serving import serving
from tests.support.session import session
from tests.support.waiting import wait_until
from tests.web.pages import LIMIT_MS, see
from tests.web.test_security import OWN, READS, WRITES, filled

needs_standby = pytest.mark.skipif(
    not has_pg_basebackup(find_binaries().bindir), reason="these server binaries come without pg_basebackup"
)


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    """A primary and a standby that follows it."""
    with streaming_pair() as made:
        yield made


@pytest.fixture(scope="module")
async def standby(pair: Pair) -> str:
    """The standby of a server with one job."""
    await Client(pair.primary.dsn).migrate()
    async with Client(pair.primary.dsn) as client:
        await client.add_job("hello")
    async with session(pair.standby.dsn, "asyncq") as copy:

        async def has_it() -> bool:
            return await copy.value("select to_regclass('asyncq._jobs') is not null") and await copy.value(
                "select exists (select from asyncq._jobs)"
            )

        await wait_until(has_it, description="the standby to have the job")
    return pair.standby.dsn


@pytest.fixture(scope="module")
async def roles(dsn: str) -> AsyncIterator[Roles]:
    """The roles of this file: the one that has no other rights is the monitor. There is one job."""
    async with three_roles(dsn) as made:
        await apply_monitor(Database(made.dsn, made.schema), monitor=made.stranger)
        async with Client(made.dsn, schema=made.schema) as client:
            await client.add_job("hello")
        yield made


@asynccontextmanager
async def asking(dsn: str, schema: str = "asyncq") -> AsyncGenerator[httpx.AsyncClient]:
    """A client of a dashboard of this database, whose users may do everything."""
    async with AsyncExitStack() as stack:
        app = Dashboard(dsn, schema=schema, authorize=lambda _: "write")
        stack.push_async_callback(app.close)
        transport = httpx.ASGITransport(app)
        yield await stack.enter_async_context(
            httpx.AsyncClient(transport=transport, base_url="http://test", headers=OWN)
        )


async def refusals(http: httpx.AsyncClient) -> dict[tuple[str, str], tuple[int, str]]:
    """The answer to each request that changes something: its status, and the sentence."""
    found: dict[tuple[str, str], tuple[int, str]] = {}
    for method, path in WRITES:
        answer = await http.request(method, filled(path), content=b"{}")
        found[method, path] = answer.status_code, answer.json()["error"]["message"]
    return found


@needs_standby
async def test_nothing_is_changed_on_a_standby(standby: str) -> None:
    """Each change is refused with the reason; all is read as on the primary."""
    async with asking(standby) as http:
        found = await refusals(http)
        read = [(await http.get(filled(path))).status_code for path in READS if path in ("/api/overview", "/api/jobs")]
        me = (await http.get("/api/me")).json()

    assert {(403, "the server is a standby: nothing can be changed there")} == set(found.values())
    assert ([200, 200], [], True) == (read, me["can"], me["is_standby"])


@needs_standby
async def test_the_page_of_a_standby_says_so_and_offers_no_change(standby: str, browser: str) -> None:
    """On the page of a job, which is read."""
    async with (
        Dashboard(standby, authorize=lambda _: "write") as dashboard,
        serving(dashboard) as address,
        page(browser) as shown,
    ):
        await shown.goto(f"{address}#/jobs/1")
        await see(shown, "This server is a standby: nothing can be changed here.")
        await see(shown, "no worker is alive")
        await expect(shown.get_by_role("button", name="Copy as a command")).to_be_visible(timeout=LIMIT_MS)
        await expect(shown.get_by_role("button", name="Cancel")).to_have_count(0)


async def test_a_role_whose_transactions_only_read_changes_nothing(roles: Roles) -> None:
    """It has the rights of a worker, and reads all pages."""
    dsn = roles.dsn_of(roles.worker, default_transaction_read_only="on")
    async with asking(dsn, roles.schema) as http:
        found = await refusals(http)
        read = {path: (await http.get(filled(path))).status_code for path in READS if path.startswith("/api/j")}

    said = "the role of the database may not change jobs, or its transactions are read-only"
    assert {(403, said)} == set(found.values())
    assert {200} == set(read.values()), read
    await check_unchanged(roles)


@pytest.mark.parametrize("role", ["stranger", "enqueuer"])
async def test_a_role_without_rights_gets_a_reason_for_each_request(roles: Roles, role: str) -> None:
    """The monitor role does not suffice for a dashboard: it sees no jobs."""
    async with asking(roles.dsn_of(getattr(roles, role)), roles.schema) as http:
        found = await refusals(http)
        read = {path: await http.get(filled(path)) for path in READS if path.startswith("/api/jobs")}

    assert {403} == {status for status, _ in found.values()}
    assert {403} == {answer.status_code for answer in read.values()}
    assert all("roles" in answer.json()["error"]["message"] for answer in read.values())
    await check_unchanged(roles)


async def check_unchanged(roles: Roles) -> None:
    """The job is there as it was, and nothing is paused."""
    async with Client(roles.dsn, schema=roles.schema) as client:
        (job,) = (await client.admin.find_jobs()).jobs
        assert (JobState.AVAILABLE, []) == (job.state, await client.admin.paused())


async def test_rights_that_are_granted_later_are_seen(dsn: str) -> None:
    """A dashboard lives for months: a standby is promoted, a role is granted more."""
    now = 0.0
    async with (
        three_roles(dsn) as roles,
        Client(roles.dsn_of(roles.worker), schema=roles.schema) as client,
        session(roles.dsn, roles.schema) as sql,
    ):
        site = Site(client, Redaction((), hide=False), Live(lambda: now), read_only=False)
        await sql.execute(f"revoke execute on function asyncq._administer_jobs from {roles.worker}")
        first = await site.open()
        await sql.execute(f"grant execute on function asyncq._administer_jobs to {roles.worker}")
        soon = await site.open()
        now = RIGHTS_FOR_S
        later = await site.open()

    assert (False, False, True) == (first.may_change, soon.may_change, later.may_change)
