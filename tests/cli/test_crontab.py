"""`asyncq worker` and its crontab: the named file, or the one beside the folder of tasks."""

from pathlib import Path

import asyncpg
import pytest

from tests.support.cli import appears, asyncq, started, write

HELLO = """
from pathlib import Path
from asyncq import task

@task
async def hello(name: str) -> None:
    Path(f"{name}.txt").write_text("hello")
"""
EACH_MINUTE = "* * * * *  hello  ?fill=1h&jobKey=hello  {name: 'one'}\n"


@pytest.mark.parametrize(
    ("path", "words"), [("crontab", []), ("jobs.crontab", ["--crontab", "jobs.crontab"])], ids=["beside", "named"]
)
async def test_the_jobs_of_a_crontab_are_added_and_run(
    path: str, words: list[str], dsn: str, schema: str, db: asyncpg.Connection, tmp_path: Path
) -> None:
    """The slots of the last minutes are added at once, so that a first test need not wait."""
    write(tmp_path, {"tasks/hello.py": HELLO, path: EACH_MINUTE})
    await db.execute(f"insert into {schema}.known_crontabs values ('hello', now() - interval '5 minutes')")

    with started(tmp_path, "worker", "--schema", schema, *words, DATABASE_URL=dsn) as process:
        said = await process.says("schedules 1 recurring items: .*")
        ran = await appears(tmp_path / "one.txt")
        process.signal()
        code = await process.end()

    assert (0, "schedules 1 recurring items: hello", "hello") == (code, said, ran)


async def test_a_worker_that_runs_once_leaves_the_crontab_alone(
    dsn: str, schema: str, db: asyncpg.Connection, tmp_path: Path
) -> None:
    """Another cron starts such a worker already."""
    write(tmp_path, {"tasks/hello.py": HELLO, "crontab": EACH_MINUTE})
    await db.execute(f"insert into {schema}.known_crontabs values ('hello', now() - interval '5 minutes')")

    done = await asyncq("worker", "--once", "--schema", schema, cwd=tmp_path, DATABASE_URL=dsn)

    added = await db.fetchval(f"select count(last_execution) from {schema}.known_crontabs")
    assert (0, 0) == (done.returncode, added)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            [],
            (
                "{folder}/crontab has 2 problems:\n"
                "  line 1, column 1: minute is 60, expected 0 to 59\n"
                "  line 3, column 16: there is no option 'fil'; did you mean 'fill'?\n"
            ),
        ),
        (["--crontab", "none"], "none cannot be used: it cannot be read: No such file or directory\n"),
        (["--crontab", ""], "--crontab is empty: is a variable not set?\n"),
        (
            ["--crontab", "crontab", "--once"],
            "--once with --crontab: only a worker that keeps running adds recurring jobs\n",
        ),
    ],
    ids=["beside", "missing", "empty", "once"],
)
async def test_a_crontab_that_cannot_be_used_ends_the_worker_with_2_at_its_start(
    words: list[str], said: str, dsn: str, tmp_path: Path
) -> None:
    """It ends before it takes a job, and reports all problems."""
    write(tmp_path, {"tasks/hello.py": HELLO, "crontab": "60 * * * * hello\n\n* * * * * hey ?fil=1d\n"})

    done = await asyncq("worker", *words, cwd=tmp_path, DATABASE_URL=dsn)

    assert (2, f"asyncq: {said.format(folder=tmp_path)}") == (done.returncode, done.stderr)


async def test_the_options_of_a_worker_object_say_its_crontab(dsn: str, schema: str, tmp_path: Path) -> None:
    """A crontab on the command line is refused, as other options are."""
    application = f"{HELLO}\nfrom asyncq import Worker\nworker = Worker({dsn!r}, [hello], schema={schema!r})\n"
    write(tmp_path, {"app.py": application})

    done = await asyncq("worker", "--tasks", "app:worker", "--crontab", "crontab", cwd=tmp_path)

    said = "asyncq: --crontab: app:worker is a Worker object, whose options are set in the code\n"
    assert (2, said) == (done.returncode, done.stderr)
