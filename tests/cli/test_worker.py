"""`asyncq worker` as a process: it loads tasks, runs jobs, and stops on a signal."""

import base64
import json
import re
import signal
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import asyncpg
import pytest

from asyncq import Client, JobNotFound, JobState
from tests.support.cli import Started, appears, asyncq, started, write

StartWorker = Callable[..., AbstractContextManager[Started]]

HELLO = """
from pathlib import Path
from asyncq import JobContext, task

@task
async def hello(name: str, ctx: JobContext) -> None:
    ctx.logger.info("hello %s", name)
    Path(f"{name}.txt").write_text(str(ctx.job.id))
"""

WAIT = """
import asyncio
import base64
from pathlib import Path
from asyncq import task

@task
async def wait() -> None:
    Path("running").write_text("yes")
    while not Path("go").exists():
        await asyncio.sleep(0.01)
    Path("done").write_text("yes")
"""

THREAD = """
import time
from pathlib import Path
from asyncq import task

@task
def stuck() -> None:
    Path("running").write_text("yes")
    while True:
        time.sleep(0.01)
"""

COROUTINE = """
import asyncio
from pathlib import Path
from asyncq import task

@task
async def stuck() -> None:
    Path("running").write_text("yes")
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass
"""


@pytest.fixture
def worker(dsn: str, schema: str, tmp_path: Path) -> StartWorker:
    """Start `asyncq worker` on the test's schema, in the test's folder."""

    def start(*words: str, **options: str) -> AbstractContextManager[Started]:
        return started(tmp_path, "worker", "--schema", schema, *words, DATABASE_URL=dsn, **options)

    return start


async def state_of(client: Client, job_id: int) -> JobState | None:
    """A job's state; None if the job does not exist."""
    try:
        return (await client.get_job(job_id)).state
    except JobNotFound:
        return None


async def test_a_worker_with_the_folder_tasks_runs_jobs_of_the_command_line_and_of_sql(
    worker: StartWorker, dsn: str, schema: str, db: asyncpg.Connection, tmp_path: Path
) -> None:
    """The quickstart: a folder, a command, a job from anywhere; SIGTERM ends it with 0."""
    write(tmp_path, {"tasks/hello.py": HELLO, "tasks/greet/late.py": HELLO})

    with worker("--poll", "60s") as process:
        start = await process.says("worker .* takes jobs .*")
        added = await asyncq("add", "hello", '{"name": "one"}', "--schema", schema, DATABASE_URL=dsn)
        by_sql = f"""select id from {schema}.add_job('greet/late', '{{"name": "two"}}')"""
        second = await db.fetchval(by_sql)
        ran = await appears(tmp_path / "one.txt"), await appears(tmp_path / "two.txt")
        process.signal()
        code = await process.end()

    assert (0, (added.stdout.strip(), str(second))) == (code, ran)
    assert "of 2 tasks (greet/late, hello)" in start
    assert "uvloop" in start
    assert f"INFO    job {second} (greet/late): hello two" in process.log.read_text()


async def test_a_signal_lets_the_running_job_finish(worker: StartWorker, client: Client, tmp_path: Path) -> None:
    """A deployment must not interrupt jobs of a few seconds."""
    write(tmp_path, {"tasks/wait.py": WAIT})
    added = await client.add_job("wait")

    with worker() as process:
        await appears(tmp_path / "running")
        process.signal()
        await process.says(r"stops \(SIGTERM\): 1 running jobs may finish")
        (tmp_path / "go").touch()
        code = await process.end()

    assert (0, "yes", None) == (code, (tmp_path / "done").read_text(), await state_of(client, added.id))


async def test_a_second_signal_ends_the_grace_period(worker: StartWorker, client: Client, tmp_path: Path) -> None:
    """A second Ctrl-C means do not wait. The job is due again, and no attempt is counted."""
    write(tmp_path, {"tasks/wait.py": WAIT})
    added = await client.add_job("wait")

    with worker("--grace", "1h") as process:
        await appears(tmp_path / "running")
        process.signal(signal.SIGINT)
        await process.says(r"stops \(SIGINT\)")
        process.signal(signal.SIGINT)
        code = await process.end()

    job = await client.get_job(added.id)
    assert (0, JobState.AVAILABLE, 0) == (code, job.state, job.attempts)


async def test_once_runs_all_due_jobs_and_ends(
    worker: StartWorker, client: Client, db: asyncpg.Connection, schema: str, tmp_path: Path
) -> None:
    """Queues are drained, also of jobs added meanwhile; future jobs stay. The log is JSON if requested."""
    write(
        tmp_path,
        {
            "app.py": """
from asyncq import JobContext, task

@task
async def chain(left: int, ctx: JobContext) -> None:
    ctx.logger.info("chain")
    if left:
        await ctx.add_job("chain", {"left": left - 1}, queue="q")
"""
        },
    )
    for _ in range(3):
        await client.add_job("chain", {"left": 2}, queue="q")
    (waits,) = [await client.add_job("chain", {"left": 0}, flags=["slow"])]

    with worker("--once", "--tasks", "app", "--log-format", "json", "--forbid", "slow", "-j", "2") as process:
        code = await process.end()

    lines = [json.loads(line) for line in process.log.read_text().splitlines()]
    runs = [line for line in lines if line["message"] == "chain"]
    assert (0, 9, [waits.id]) == (
        code,
        len(runs),
        [row["id"] for row in await db.fetch(f"select id from {schema}.jobs")],
    )
    assert {"time", "level", "logger", "message", "job_id", "task", "queue", "worker_id", "attempt"} == set(runs[0])


async def test_a_worker_runs_the_queues_that_are_named(
    worker: StartWorker, client: Client, tmp_path: Path, db: asyncpg.Connection, schema: str
) -> None:
    """A number after a colon is how many at once; a name may have colons itself."""
    write(tmp_path, {"tasks/hello.py": "from asyncq import task\n\n@task\nasync def hello() -> None: ...\n"})
    added = {name: await client.add_job("hello", queue=name) for name in ("mail", "eu:west", "imports", "other")}
    with worker("--once", "--queues", "mail,eu:west:2") as process:
        codes = [await process.end()]
    some = await db.fetch(f"select queue_name from {schema}.jobs order by id")
    with worker("--once", "--exclude", "imports") as process:
        codes.append(await process.end())
    with worker("--once", "--queues", "mail:3", "-j", "2") as process:
        codes.append(await process.end())

    assert [0, 0, 2] == codes
    assert ["imports", "other"] == [row["queue_name"] for row in some]
    assert "the share of 'mail' is 3 jobs at once, but the worker has a concurrency of 2" in process.log.read_text()
    assert added["imports"].id == await db.fetchval(f"select id from {schema}.jobs")


async def test_once_stops_in_order_on_a_signal(worker: StartWorker, client: Client, tmp_path: Path) -> None:
    """A killed worker would leave its jobs claimed until the lease ends."""
    write(tmp_path, {"tasks/wait.py": WAIT})
    added = await client.add_job("wait")

    with worker("--once", "--grace", "0") as process:
        await appears(tmp_path / "running")
        process.signal()
        code = await process.end()

    assert (0, JobState.AVAILABLE) == (code, await state_of(client, added.id))


@pytest.mark.parametrize(
    ("words", "age", "left"),
    [
        ([], "29 days", 1),
        ([], "31 days", 0),
        (["--discarded-retention", "30m"], "29 minutes", 1),
        (["--discarded-retention", "30m"], "31 minutes", 0),
        (["--discarded-retention", "never"], "10 years", 1),
    ],
    ids=str,
)
async def test_discarded_jobs_are_kept_for_the_given_time(
    worker: StartWorker,
    client: Client,
    db: asyncpg.Connection,
    schema: str,
    tmp_path: Path,
    words: list[str],
    age: str,
    left: int,
) -> None:
    """The default is a month, so that users can look at them or retry them."""
    write(tmp_path, {"tasks/wait.py": WAIT})
    added = await client.add_job("gone")
    await client.admin.discard_jobs([added.id])
    await db.execute(f"update {schema}._jobs set updated_at = now() - interval '{age}'")

    with worker("--once", *words) as process:
        code = await process.end()

    assert (0, left) == (code, await db.fetchval(f"select count(*) from {schema}._all_jobs()"))


@pytest.mark.parametrize(
    ("words", "recorded"), [([], 1), (["--error-retention", "1h"], 1), (["--error-retention", "none"], 0)], ids=str
)
async def test_failed_attempts_are_recorded_unless_that_is_refused(
    worker: StartWorker, client: Client, tmp_path: Path, words: list[str], recorded: int
) -> None:
    """An error may hold what nobody should keep."""
    write(tmp_path, {"tasks/fail.py": "from asyncq import task\n\n@task\nasync def fail():\n    raise OSError\n"})
    added = await client.add_job("fail")

    with worker("--once", *words) as process:
        code = await process.end()

    assert (0, recorded) == (code, len(await client.admin.errors(added.id)))


@pytest.mark.leaves_something
@pytest.mark.parametrize(
    ("code_of_task", "expected"),
    [
        (THREAD, r"threads still run: AnyIO worker thread at .*stuck.py, line 1\d"),
        (COROUTINE, "a coroutine refuses to be cancelled"),
    ],
    ids=["thread", "coroutine"],
)
async def test_a_worker_ends_although_a_handler_does_not(
    code_of_task: str, expected: str, worker: StartWorker, client: Client, tmp_path: Path
) -> None:
    """A thread cannot be stopped, and Python would wait for it for ever. The job is left to other workers."""
    write(tmp_path, {"tasks/stuck.py": code_of_task})
    added = await client.add_job("stuck")
    hasty = """
import sys
from asyncq.cli import main, process
from asyncq.engine import supervisor
supervisor.CANCEL_S, process.PATIENCE_S = 0.1, 0.2
sys.exit(main())
"""

    with worker("--grace", "0", program=hasty) as process:
        await appears(tmp_path / "running")
        process.signal()
        code = await process.end()

    said = process.log.read_text()
    assert (1, JobState.ACTIVE) == (code, await state_of(client, added.id))
    assert "1 handlers did not end" in said
    assert re.search(f"the process ends by force, {expected}", said), said


async def test_a_worker_object_runs_with_the_options_of_its_code(
    dsn: str, schema: str, client: Client, tmp_path: Path
) -> None:
    """Options and observers come from the program, signals and the log from the command."""
    write(
        tmp_path,
        {
            "tasks/hello.py": HELLO,
            "app.py": f"""
from asyncq import Worker
from tasks.hello import hello
worker = Worker({dsn!r}, [hello], schema={schema!r}, concurrency=3)
""",
        },
    )
    await client.add_job("hello", {"name": "one"})

    done = await asyncq("worker", "--once", "--tasks", "app:worker", cwd=tmp_path)
    refused = await asyncq("worker", "--tasks", "app:worker", "-j", "5", "--schema", "other", cwd=tmp_path)

    assert (0, True) == (done.returncode, (tmp_path / "one.txt").exists())
    assert "concurrency 3" in done.stderr
    said = "asyncq: --concurrency, --schema: app:worker is a Worker object, whose options are set in the code\n"
    assert (2, said) == (refused.returncode, refused.stderr)


NAMED = HELLO.replace("@task", "@task(name='x')")


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (
            {"tasks/a.py": NAMED, "tasks/b.py": NAMED},
            "asyncq: two tasks are called 'x': tasks.a.hello and tasks.b.hello; give one of them a name=\n",
        ),
        (
            {"tasks/a.py": HELLO + "    yield 1\n"},
            (
                "asyncq: tasks/a.py cannot be loaded: task 'hello': the handler is a generator (it has a yield); "
                "a handler is a plain function (tasks/a.py, line 5)\n"
            ),
        ),
    ],
    ids=["two of one name", "generator"],
)
async def test_tasks_that_cannot_be_served_end_the_worker_with_2_at_its_start(
    files: dict[str, str], expected: str, dsn: str, tmp_path: Path
) -> None:
    """It ends before it takes a job, with one line and no traceback."""
    write(tmp_path, files)

    done = await asyncq("worker", cwd=tmp_path, DATABASE_URL=dsn)

    assert (2, expected) == (done.returncode, done.stderr)


async def test_a_worker_without_its_schema_says_to_run_migrate_or_does_it(
    dsn: str, db: asyncpg.Connection, tmp_path: Path
) -> None:
    """Nothing migrates implicitly. --migrate is for demos and small deployments."""
    write(tmp_path, {"tasks/hello.py": HELLO})
    words = ["worker", "--once", "--schema", "cli_fresh"]

    missing = await asyncq(*words, cwd=tmp_path, DATABASE_URL=dsn)
    migrated = await asyncq(*words, "--migrate", cwd=tmp_path, DATABASE_URL=dsn)

    await db.execute("set client_min_messages = warning")
    await db.execute("drop schema cli_fresh cascade")
    said = "asyncq: the schema 'cli_fresh' is not installed; run `asyncq migrate --schema cli_fresh`\n"
    assert (3, said, 0) == (missing.returncode, missing.stderr, migrated.returncode)


async def test_a_worker_that_cannot_reach_the_server_prints_the_address(tmp_path: Path) -> None:
    """At its start it ends, so that a wrong address is noticed at once. Later it retries for ever."""
    write(tmp_path, {"tasks/hello.py": HELLO})

    done = await asyncq("worker", "--dsn", "postgresql://app:secret@127.0.0.1:1/shop", cwd=tmp_path)

    assert (3, 1) == (done.returncode, done.stderr.count("\n"))
    assert done.stderr.startswith("asyncq: PostgreSQL at 127.0.0.1:1, database 'shop', as 'app' cannot be reached: ")


@pytest.mark.parametrize(
    ("words", "code", "expected"),
    [
        (["--dsn", "postgresql://app@127.0.0.1:1/shop"], 3, "cannot be reached: "),
        (["--tasks", "nowhere"], 2, "nowhere"),
        (["--log-level", "debug", "--tasks", "nowhere"], 2, "nowhere"),
    ],
    ids=["database", "tasks", "traceback"],
)
async def test_a_worker_whose_log_is_json_ends_with_its_error_in_the_log(
    words: list[str], code: int, expected: str, tmp_path: Path
) -> None:
    """A log collector must be able to parse the last line too."""
    write(tmp_path, {"tasks/hello.py": HELLO})

    done = await asyncq("worker", "--log-format", "json", *words, cwd=tmp_path)

    *_, line = [json.loads(line) for line in done.stderr.splitlines()]
    assert (code, "error", "asyncq.cli", "debug" in words) == (
        done.returncode,
        line["level"],
        line["logger"],
        "Traceback" in line.get("exception", ""),
    )
    assert expected in line["message"]


LIFESPAN = """
from contextlib import asynccontextmanager
from pathlib import Path
from asyncq import task

@asynccontextmanager
async def worker_lifespan(worker):
    Path("opened").write_text(type(worker).__name__)
    yield
    Path("closed").write_text("yes" if Path("done").exists() else "too early")

@task
async def hello() -> None:
    Path("done").write_text(Path("opened").read_text())
"""


@pytest.mark.parametrize(
    "words",
    [["--tasks", "app"], ["--tasks", "app:hello"], ["--tasks", "tasks", "--lifespan", "app:worker_lifespan"]],
    ids=["module", "name", "option"],
)
async def test_the_lifespan_of_a_module_runs_around_the_worker(
    worker: StartWorker, client: Client, tmp_path: Path, words: list[str]
) -> None:
    """A service opens its engine or its tracing at one place, without a program of its own."""
    write(tmp_path, {"app.py": LIFESPAN, "tasks/hello.py": "from app import hello as imported\n" + LIFESPAN})
    await client.add_job("hello")

    with worker("--once", *words) as process:
        code = await process.end()

    assert (0, "Worker", "yes") == (code, (tmp_path / "done").read_text(), (tmp_path / "closed").read_text())


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("app", "lifespan 'app' is not module:name"),
        ("app:other", "app:other: module app has no 'other'"),
        ("app:hello", "lifespan must be an async context manager function"),
    ],
)
async def test_a_lifespan_that_cannot_be_used_is_named(
    worker: StartWorker, tmp_path: Path, given: str, expected: str
) -> None:
    """The worker must not start without it."""
    write(tmp_path, {"app.py": LIFESPAN})

    with worker("--tasks", "app", "--lifespan", given) as process:
        code = await process.end()

    assert (2, True) == (code, expected in process.log.read_text())


CODEC = """
from pathlib import Path
from asyncq import Codec, task

class Backwards(Codec):
    key_id = "backwards"

    def encode(self, task, data):
        return data[::-1]

    def decode(self, task, data, key_id):
        return data[::-1]

worker_codec = Backwards()

@task
async def hello(name: str) -> None:
    Path("done").write_text(name)
"""


@pytest.mark.parametrize("words", [["--tasks", "app"], ["--tasks", "tasks", "--codec", "app:worker_codec"]])
async def test_the_codec_of_a_module_decodes_payloads(
    worker: StartWorker, db: asyncpg.Connection, schema: str, tmp_path: Path, words: list[str]
) -> None:
    """It is found as the lifespan is; without it each job would fail."""
    write(tmp_path, {"app.py": CODEC, "tasks/hello.py": "from app import hello as imported\n" + CODEC})
    data = base64.b64encode(b'}"adA":"eman"{').decode()
    await db.execute(f"select {schema}.add_job('hello', $1)", f'"asyncq:1:backwards:{data}"')

    with worker("--once", *words) as process:
        code = await process.end()

    assert (0, "Ada") == (code, (tmp_path / "done").read_text())


async def test_a_codec_that_cannot_be_used_is_named(worker: StartWorker, tmp_path: Path) -> None:
    """The worker must not start without it."""
    write(tmp_path, {"app.py": CODEC})

    with worker("--tasks", "app", "--codec", "app:hello") as process:
        code = await process.end()

    assert (2, True) == (code, "codec must have the methods encode and decode" in process.log.read_text())
