"""The documentation cannot rot: its examples run, its tables hold the real defaults, its links lead somewhere.

A block runs when its first line is `# runs` (python) or `-- runs` (sql; `-- runs, then rolls back` leaves no trace).
The blocks of a page run in their order, in one namespace, on one database; python may use the names DSN and SCHEMA, and
await. A block whose first line names a file (`# examples/...`, `-- examples/...`) is a part of that file.
"""

import ast
import asyncio
import inspect
import re
import sys
import types
from collections.abc import AsyncGenerator, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
import pytest

import asyncq
from asyncq import Client, Task, Worker
from asyncq.domain import events
from asyncq.domain.job import JobOptions
from asyncq.domain.options import WorkerOptions
from tests.support.example_program import fresh_database

CHECKOUT = Path(__file__).parents[2]
GUIDE = sorted((CHECKOUT / "docs/guide").glob("*.md"))
PAGES = [CHECKOUT / "README.md", CHECKOUT / "docs/scale.md", *GUIDE]
OPTIONS = (CHECKOUT / "docs/guide/options.md").read_text()
INSTALLS = (CHECKOUT / "README.md", CHECKOUT / "docs/guide/getting-started.md")
"""Pages for readers with an empty database: their examples have to install the schema."""
ROLLS_BACK = "-- runs, then rolls back"


class Block(msgspec.Struct, frozen=True):
    """A block of code on a page.

    Attributes:
        source: The lines between the fences, below as many empty lines as precede them on the page: a traceback
            then names the line of the page.
    """

    page: Path
    language: str
    source: str

    @property
    def mark(self) -> str:
        """The first line."""
        return self.source.lstrip("\n").partition("\n")[0].strip()

    @property
    def runs(self) -> bool:
        """Whether it must be run."""
        return self.mark in ("# runs", "-- runs", ROLLS_BACK)

    @property
    def origin(self) -> str | None:
        """The file that it is a part of."""
        named = re.fullmatch(r"(?:#|--) ((?:examples|tests)/\S+)", self.mark)
        return named[1] if named else None


def blocks(page: Path) -> Iterator[Block]:
    """Yield the blocks of Python and SQL on a page."""
    text = page.read_text()
    for found in re.finditer(r"^```(python|sql)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        above = text[: found.start(2)].count("\n")
        yield Block(page, found[1], "\n" * above + found[2])


def name_of(what: Path | Block) -> str:
    """How a test of a page or block is called."""
    if isinstance(what, Path):
        return str(what.relative_to(CHECKOUT))
    return f"{name_of(what.page)}:{1 + len(what.source) - len(what.source.lstrip(chr(10)))}"


ALL = [block for page in PAGES for block in blocks(page)]


def compiled(block: Block) -> types.CodeType:
    """A block as code that may await."""
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    return compile(block.source, str(block.page), "exec", flags=flags, dont_inherit=True)


@pytest.fixture
async def database(dsn: str) -> AsyncGenerator[str]:
    """A database of the page's own, without the schema: its examples use the default one."""
    async with fresh_database(dsn) as name:
        yield name


async def run_python(block: Block, module: types.ModuleType) -> None:
    """Run a block: in this event loop if it awaits, otherwise in a thread, where it may call asyncio.run."""
    code = compiled(block)
    if code.co_flags & inspect.CO_COROUTINE:
        await eval(code, module.__dict__)
    else:
        await asyncio.to_thread(exec, code, module.__dict__)


async def run_sql(block: Block, database: str) -> None:
    """Run a block as psql would."""
    connection = await asyncpg.connect(database)
    try:
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute(block.source)
        await (transaction.rollback() if block.mark == ROLLS_BACK else transaction.commit())
    finally:
        await connection.close(timeout=5)


@pytest.mark.parametrize("page", [page for page in PAGES if any(block.runs for block in blocks(page))], ids=name_of)
async def test_the_examples_of_a_page_run(page: Path, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An example that fails teaches mistrust."""
    if page not in INSTALLS:
        await Client(database).migrate()
    module = types.ModuleType(f"docs_{page.stem.replace('-', '_')}")
    module.__dict__.update(DSN=database, SCHEMA="asyncq")
    # Types are looked up in the module that defines them.
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setenv("DATABASE_URL", database)

    ran = 0
    for block in blocks(page):
        if block.runs:
            await (run_python(block, module) if block.language == "python" else run_sql(block, database))
            ran += 1

    assert ran > 0


def test_an_example_is_python() -> None:
    """Some cannot run alone, such as a worker that never ends. A SyntaxError names the page and the line."""
    assert all(compiled(block) for block in ALL if block.language == "python")


def test_a_block_that_names_a_file_is_a_part_of_it() -> None:
    """The page shows a tested example. A line `...` replaces omitted lines, and the indent may differ."""
    for block in [block for block in ALL if block.origin]:
        source = unindented((CHECKOUT / block.origin).read_text())
        shown = unindented(block.source.strip("\n").partition("\n")[2])

        assert [] == [part for part in re.split(r"^\.\.\.$", shown, flags=re.MULTILINE) if part.strip() not in source]


def unindented(source: str) -> str:
    """The lines of a source without the blanks around each."""
    return "\n".join(line.strip() for line in source.splitlines())


def shown_default(value: Any, *, is_delay: bool) -> str:
    """A default as the tables show it."""
    if value is None or value in ((), "") or value is inspect.Parameter.empty:
        return "none" if value is not inspect.Parameter.empty else "needed"
    if isinstance(value, timedelta):
        return f"{value.days} days"
    if is_delay:
        return f"{value:g} s"
    return "1 MiB" if value == 1024 * 1024 else str(value)


def options_of(function: Any) -> dict[str, str]:
    """Name -> default of each option, as the tables show it."""
    real = {field.name: field.default for field in msgspec.structs.fields(WorkerOptions)}
    found = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if name != "self":
            is_delay = f"{name}_s" in real and function is Worker.__init__
            default = parameter.default
            if default is None and function is Worker.__init__:
                default = real.get(f"{name}_s", real.get(name))
            found[name] = shown_default(default, is_delay=is_delay)
    return found


def table(heading: str) -> dict[str, str]:
    """Name -> default of each option in the table below a heading of the page of options."""
    below = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", OPTIONS, re.MULTILINE | re.DOTALL)[1]
    return dict(re.findall(r"^\| `(\w+)` \| ([^|]+?) \|", below, re.MULTILINE))


@pytest.mark.parametrize(("heading", "function"), [("Worker", Worker.__init__), ("Client", Client.__init__)])
def test_the_tables_hold_every_option_with_its_default(heading: str, function: Any) -> None:
    """An option that is not documented does not exist, a wrong default costs an evening."""
    assert options_of(function) == table(heading)


@pytest.mark.parametrize(
    ("heading", "names"),
    [
        ("task", inspect.signature(Task.__init__).parameters.keys() - {"self", "handler"}),
        ("Jobs", JobOptions.__annotations__.keys()),
    ],
)
def test_the_tables_of_tasks_and_jobs_hold_every_option(heading: str, names: set[str]) -> None:
    """The defaults of a job come from its task, those of a task from the database."""
    assert names == table(heading).keys()


def own_fields(kind: type[events.Event]) -> set[str]:
    """The fields of an event without those of its base, which have a line of their own."""
    fields = {*kind.__struct_fields__} - {*kind.__base__.__struct_fields__}
    return fields | {"job_id"} if kind is events.JobEvent else fields


def test_every_event_is_documented_with_its_fields() -> None:
    """Names of events are an interface: observers are written from this page."""
    page = (CHECKOUT / "docs/guide/events.md").read_text()
    kinds = [kind for kind in vars(events).values() if isinstance(kind, type) and issubclass(kind, events.Event)]
    rows = re.findall(r"^\| `(\w+)` \|[^|]*\|(.*)\|$", page, re.MULTILINE)

    documented = {name: set(re.findall(r"`(\w+)`", fields)) for name, fields in rows}
    assert {kind.__name__: own_fields(kind) for kind in kinds if kind is not events.Event} == documented


def test_every_public_name_is_in_the_guide() -> None:
    """Users cannot discover a name that the guide omits."""
    guide = "\n".join(page.read_text() for page in GUIDE)

    assert [] == [name for name in asyncq.__all__ if not re.search(rf"\b{name}\b", guide)]


def headings(page: Path) -> set[str]:
    """The headings of a page as links name them: lower case, no punctuation, dashes for blanks."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def broken_links(page: Path) -> Iterator[str]:
    """Yield the links of a page that are broken."""
    for target, heading in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", page.read_text()):
        path = page.parent / target if target else page
        if not path.exists() or (heading and heading not in headings(path)):
            yield f"{target}#{heading}"


def test_links_lead_to_existing_files_and_headings() -> None:
    """A moved example takes its links with it, and so does a renamed heading."""
    assert [] == [(page, link) for page in PAGES for link in broken_links(page)]
