"""The worker processes of the chaos suite: each has a place with a way to the server, and is replaced when it ends."""

import itertools
import os
import random
import signal
import sys
import time
from asyncio.subprocess import DEVNULL, Process, create_subprocess_exec
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from tests.crash.chaos_worker import NO_SERVER
from tests.crash.clocks import ProcessClock, library
from tests.crash.ledger import Fate, Run, read
from tests.support.faults import Link, link_to

CHECKOUT = Path(__file__).parents[2]
FAR_PLACES = 2


@dataclass
class Place:
    """Where one worker process works at a time.

    Attributes:
        dsn: Its way to the server.
        link: The way, if it can be broken.
        clock: The clock of its processes, if it can be moved.
        name: The number of the process that is there.
        process: That process.
    """

    dsn: str
    link: Link | None = None
    clock: ProcessClock | None = None
    name: int = -1
    process: Process | None = None

    @property
    def lives(self) -> bool:
        """Whether a process runs there."""
        return self.process is not None and self.process.returncode is None


@dataclass
class Crew:
    """All places.

    Attributes:
        places: The first one is near the server, and its clock can be moved; the others are far from it.
        fates: The faults that each process suffered.
        change: Held while a process is ended or begun.
        deserters: Processes that ended by themselves, other than for want of a server before their first job.
    """

    folder: Path
    chance: random.Random
    places: list[Place]
    fates: dict[int, Fate] = field(default_factory=dict)
    deserters: list[int] = field(default_factory=list)
    names: Iterator[int] = field(default_factory=itertools.count)
    change: anyio.Lock = field(default_factory=anyio.Lock)

    async def start(self) -> None:
        """Let a process begin at each place."""
        for place in self.places:
            await self._begin(place)

    def some(self) -> Place | None:
        """Any place where a process works."""
        living = [place for place in self.places if place.lives]
        return self.chance.choice(living) if living else None

    @property
    def near(self) -> Place:
        """The place whose clock can be moved."""
        return self.places[0]

    def some_link(self) -> tuple[Place, Link]:
        """Any place that is far from the server."""
        place = self.chance.choice(self.places[-FAR_PLACES:])
        assert place.link is not None
        return place, place.link

    async def kill(self, place: Place) -> None:
        """SIGKILL, and another process in its place."""
        async with self.change:
            assert place.process is not None
            if place.lives:
                place.process.kill()
                await place.process.wait()
                self.fates[place.name].died = time.monotonic_ns()
                await self._begin(place)

    async def pause(self, place: Place, seconds: float) -> tuple[int, int, int]:
        """Stop the process by SIGSTOP, then continue it. Returns its name and when the pause began and ended."""
        process, name, began = place.process, place.name, time.monotonic_ns()
        assert process is not None
        _signal(process, signal.SIGSTOP)
        try:
            await anyio.sleep(seconds)
        finally:
            _signal(process, signal.SIGCONT)
        return name, began, time.monotonic_ns()

    async def replace_for_ever(self) -> None:
        """Start a process for each that has ended by itself, as a supervisor does."""
        while True:
            for place in self.places:
                async with self.change:
                    if place.lives:
                        continue
                    self.fates[place.name].died = time.monotonic_ns()
                    assert place.process is not None
                    if place.process.returncode != NO_SERVER or self._path(place.name, "ledger").stat().st_size:
                        self.deserters.append(place.name)
                    await self._begin(place)
            await anyio.sleep(0.1)

    async def dismiss(self) -> None:
        """Stop all in order."""
        for place in self.places:
            if place.process is not None:
                _signal(place.process, signal.SIGTERM)
        for place in self.places:
            if place.process is not None:
                if await place.process.wait() not in (0, -signal.SIGTERM, NO_SERVER):
                    self.deserters.append(place.name)
                self.fates[place.name].died = time.monotonic_ns()

    async def destroy(self) -> None:
        """End all processes, even after a failure."""
        for place in self.places:
            if place.process is not None and place.lives:
                place.process.kill()
                await place.process.wait()

    def runs(self) -> list[Run]:
        """Read all runs that the handlers recorded."""
        return read((name, self._path(name, "ledger"), fate) for name, fate in self.fates.items())

    def logs(self, names: list[int]) -> str:
        """The last lines that each process logged."""
        return "\n".join(f"{name}: {self._path(name, 'log').read_text()[-2000:]}" for name in names)

    def _path(self, name: int, kind: str) -> Path:
        return self.folder / f"worker-{name}.{kind}"

    async def _begin(self, place: Place) -> None:
        place.name = name = next(self.names)
        self.fates[name] = Fate()
        self._path(name, "ledger").touch()
        variables = {} if place.clock is None else place.clock.variables
        with self._path(name, "log").open("wb") as log:
            words = ["-m", "tests.crash.chaos_worker", place.dsn, str(self._path(name, "ledger"))]
            place.process = await create_subprocess_exec(
                sys.executable,
                *words,
                cwd=CHECKOUT,
                env={**os.environ, **variables},
                stdin=DEVNULL,
                stdout=log,
                stderr=log,
            )


@asynccontextmanager
async def crew_of(dsn: str, folder: Path, chance: random.Random) -> AsyncIterator[Crew]:
    """The places for a server, without processes; none is left at the end."""
    clock = None
    if library() is not None:
        clock = ProcessClock(folder / "clock", moves_monotonic=chance.random() < 0.5)
    async with AsyncExitStack() as stack:
        links = [await stack.enter_async_context(link_to(dsn)) for _ in range(FAR_PLACES)]
        crew = Crew(folder, chance, [Place(dsn, clock=clock), *(Place(link.dsn, link) for link in links)])
        try:
            yield crew
        finally:
            with anyio.CancelScope(shield=True):
                await crew.destroy()


@contextmanager
def excused(spans: list[tuple[int, int]]) -> Iterator[None]:
    """Note from when to when something is done to a process."""
    began = time.monotonic_ns()
    try:
        yield
    finally:
        spans.append((began, time.monotonic_ns()))


def _signal(process: Process, number: signal.Signals) -> None:
    if process.returncode is None:
        process.send_signal(number)
