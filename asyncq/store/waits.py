"""The waits of a client for the ends of jobs.

The transaction that ends a job notifies its watchers. A client has one LISTEN connection for all its waits, opened at
the first one. A notification may be lost with the connection. So after each connect and every `LOOK_S` one statement
asks for all waits, and also marks their jobs. Without LISTEN, as behind a pooler, it asks every `POLL_S`.
"""

import asyncio
import secrets
from collections import defaultdict
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import cast

import asyncpg
import msgspec

from asyncq.domain.errors import AsyncqError, ConfigurationError, StoreUnavailable, UnsupportedServer, WaitTimeout
from asyncq.domain.result import Ended, read_document
from asyncq.store.arrays import array_text
from asyncq.store.database import CONNECT_TIMEOUT_S, Connection, Database, hang_up
from asyncq.store.failures import UNTIDY, calling, cut_off, is_transient, on_our_own
from asyncq.store.listen import check_session

LOOK_S = 30.0
POLL_S = 0.5
BUSY_S = 0.01  # at first; then as long as it has waited, up to POLL_S
PROBE_S = 5.0
HOPELESS_S = 60.0  # until it tries again to listen where somebody has to mend the DSN, the pooler or the server
FIRST_RETRY_S = 0.05
SLOWEST_RETRY_S = 2.0

CLOSED = "the client was closed; the awaited job goes on"
POOLED = "the DSN leads to a pooler, and there is no listen_dsn, which leads directly to the server"


class _Wait:
    """One wait: `changed` is set if it has an answer, or has to ask. The answer None: nothing is known of the job."""

    def __init__(self, job_id: int) -> None:
        self.job_id = job_id
        self.since = asyncio.get_running_loop().time()
        self.changed = asyncio.Event()
        self.has_answer = False
        self.answer: Ended | None = None

    def tell(self, answer: Ended | None) -> None:
        self.has_answer, self.answer = True, answer
        self.changed.set()


class Waits:
    """The waits of one client in one event loop.

    `acquire` lends a connection of the client. `listen_database` is None if the DSN leads to a pooler. `polls` is
    called once, with the reason, if notifications cannot be received.
    """

    def __init__(
        self,
        database: Database,
        listen_database: Database | None,
        acquire: Callable[[], AbstractAsyncContextManager[Connection]],
        polls: Callable[[str], None],
    ) -> None:
        self._database = database
        self._listen_database = listen_database
        self._acquire = acquire
        self._polls = polls
        # A role that knows the name could read results, or send false ones: so it cannot be guessed.
        self._channel = f"asyncq:{secrets.token_hex(16)}"
        self._connection: asyncpg.Connection | None = None
        self._opening = asyncio.Lock()
        self._asking = asyncio.Lock()
        self._asked_at = 0.0
        self._waits: defaultdict[int, set[_Wait]] = defaultdict(set)
        self._busy: set[int] = set()  # jobs that the last question could not mark
        self._adding = 0
        self._early: dict[int, Ended | None] = {}
        self._listen_at = self._proved_at = 0.0
        self._has_said = self._is_closed = False

    async def channel(self) -> str:
        """Listen, and return the channel on which ends are notified; empty if the client has to ask."""
        async with self._opening:
            if self._listen_database is None:
                self._say_that_it_polls(POOLED)
            elif self._connection is None and asyncio.get_running_loop().time() >= self._listen_at:
                await self._listen(self._listen_database)
            return "" if self._connection is None else self._channel

    @contextmanager
    def adding(self) -> Generator[None]:
        """Keep notifications of unknown jobs in this block, in which a job with the channel is added and awaited."""
        self._adding += 1
        try:
            yield
        finally:
            self._adding -= 1
            if not self._adding:
                self._early.clear()

    def enlist(self, job_id: int, *, is_watched: bool = False) -> _Wait:
        """Begin a wait, which `end_of` ends; `is_watched` says that the job was added with the channel."""
        wait = _Wait(job_id)
        self._waits[job_id].add(wait)
        is_early = job_id in self._early
        if (early := self._early.pop(job_id, None)) is not None:
            wait.tell(early)
        elif is_early or not is_watched:
            wait.changed.set()
        return wait

    async def end_of(self, wait: _Wait, timeout_s: float | None = None) -> Ended | None:
        """Wait for the end of the job, over outages. Returns None if nothing is known of it; WaitTimeout after a time.

        If cancelled, no trace of the wait is left here.
        """
        scope = asyncio.timeout(timeout_s)
        try:
            async with scope:
                return await self._until_answered(wait)
        except TimeoutError as error:
            if timeout_s is None or not scope.expired():
                raise
            raise WaitTimeout(wait.job_id, timeout_s) from error

    async def _until_answered(self, wait: _Wait) -> Ended | None:
        failures = 0
        try:
            while not wait.has_answer:
                try:
                    await self._until_changed(wait)
                    failures = 0
                except AsyncqError as error:
                    if self._is_closed:
                        raise StoreUnavailable(CLOSED) from error
                    if not is_transient(error):
                        raise
                    failures += 1
                    await asyncio.sleep(min(FIRST_RETRY_S * 2.0**failures, SLOWEST_RETRY_S))
                    wait.changed.set()
            return wait.answer
        finally:
            waits = self._waits[wait.job_id]
            waits.discard(wait)
            if not waits:
                del self._waits[wait.job_id]

    async def _until_changed(self, wait: _Wait) -> None:
        """Wait until something may have changed, or it is time to ask; and ask, unless there is an answer."""
        now = asyncio.get_running_loop().time
        since = now()
        # All waits share the time of the last question: one of them asks for all.
        interval_s = POLL_S if self._connection is None else LOOK_S
        if wait.job_id in self._busy:
            interval_s = min(max(since - wait.since, BUSY_S), POLL_S)
        try:
            async with asyncio.timeout_at(max(self._asked_at, wait.since) + interval_s):
                await wait.changed.wait()
            since = now()
        except TimeoutError:
            pass
        wait.changed.clear()
        if not wait.has_answer:
            await self._ask(since)

    async def _ask(self, since: float) -> None:
        """Ask for all waits, unless another wait has asked since then."""
        async with self._asking:
            if self._is_closed:
                raise StoreUnavailable(CLOSED)
            if self._asked_at > since:
                return
            await self._probe()
            channel = await self.channel()
            began, ids = asyncio.get_running_loop().time(), sorted(self._waits)
            async with self._acquire() as connection:
                documents = await watch(self._database, connection, ids, channel or None)
            self._asked_at = began
        waiting: set[int] = set()
        self._busy = set()
        for document in documents:
            job_id, ended, state = read_document(document)
            if ended is not None:
                self._tell(job_id, self._opened(ended))
            else:
                (self._busy if state == "busy" else waiting).add(job_id)
        for job_id in set(ids) - waiting - self._busy:
            self._tell(job_id, None)

    def _tell(self, job_id: int, ended: Ended | None) -> None:
        for wait in self._waits.get(job_id, ()):
            if not wait.has_answer:
                wait.tell(ended)

    def _opened(self, ended: Ended) -> Ended:
        """The end with clear texts; an envelope that cannot be opened is kept."""
        if (envelopes := self._database.envelopes) is None:
            return ended
        result, error = (envelopes.open_or_keep(ended.task, text) for text in (ended.result, ended.error))
        return msgspec.structs.replace(ended, result=result, error=error)

    def _heard(self, _: object, __: object, ___: object, text: object) -> None:
        """Take a notification; any role may have sent it, so that one that cannot be read is ignored."""
        try:
            job_id, ended, _state = read_document(str(text))
        except (msgspec.MsgspecError, ValueError):
            return
        if ended is not None:
            ended = self._opened(ended)
        if self._adding and job_id not in self._waits:
            self._early[job_id] = ended
        elif ended is not None:
            self._tell(job_id, ended)
        else:
            for wait in self._waits.get(job_id, ()):
                wait.changed.set()

    async def _listen(self, database: Database) -> None:
        """Open the connection; then nothing is lost that was asked for later."""
        connection = await database.connect("wait")
        try:
            with on_our_own(), calling(database.schema):
                async with asyncio.timeout(CONNECT_TIMEOUT_S):
                    await check_session(database, connection)
                    await connection.add_listener(self._channel, self._heard)
        except (UnsupportedServer, ConfigurationError) as error:
            await hang_up(connection)
            self._listen_at = asyncio.get_running_loop().time() + HOPELESS_S
            self._say_that_it_polls(str(error))
            return
        except BaseException:
            connection.terminate()
            raise
        if self._is_closed:
            await hang_up(connection)
            raise StoreUnavailable(CLOSED)
        self._connection, self._proved_at = connection, asyncio.get_running_loop().time()
        connection.add_termination_listener(self._lost)

    def _lost(self, connection: object) -> None:
        """Ask again for all waits: the end of one may have been notified meanwhile."""
        if connection is self._connection:
            self._connection = None
            for waits in self._waits.values():
                for wait in waits:
                    wait.changed.set()

    async def _probe(self) -> None:
        """Close a connection that does not answer: it would be silent for ever."""
        now = asyncio.get_running_loop().time()
        if (connection := self._connection) is None or now < self._proved_at + LOOK_S / 2:
            return
        try:
            await connection.execute("select", timeout=PROBE_S)
            self._proved_at = now
        except UNTIDY:
            self._connection = None
            cut_off(connection)

    def _say_that_it_polls(self, reason: str) -> None:
        if not self._has_said:
            self._has_said = True
            self._polls(reason)

    async def close(self) -> None:
        """End all waits with StoreUnavailable, and close the connection."""
        self._is_closed = True
        for waits in self._waits.values():
            for wait in waits:
                wait.changed.set()
        connection, self._connection = self._connection, None
        if connection is not None:
            await hang_up(connection)


async def watch(database: Database, connection: Connection, ids: Sequence[int], channel: str | None) -> list[str]:
    """Ask how jobs have ended; the ends of the others will be notified on the channel, if there is one.

    Returns a document of each job of which something is known, see `read_document`.
    """
    rows = await database.fetch(connection, "watch", array_text(ids), channel)
    return [cast(str, row["document"]) for row in rows]
