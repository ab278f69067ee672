"""examples/flow: a limit, a rate, fairness and a pause."""

from pathlib import Path

from tests.support.example_program import fresh_database, program

STORY = """\
synced: acme, at most 3 at once
synced: zeta, at most 3 at once
called: blocked, 1 times, and 5 jobs wait: backed_off
called: good, 2 times, and 3 jobs wait: rate
imported: 303 rows, of small 3 among the first 50
waits: the disk is replaced
mailed: ann@example.org
"""


async def test_the_program_prints_what_its_readme_says(dsn: str, tmp_path: Path) -> None:
    """Its README says which feature each line proves."""
    async with fresh_database(dsn) as database:
        with program(tmp_path / "log", "examples.flow.day", DATABASE_URL=database) as day:
            code = await day.end()

    assert (0, STORY) == (code, day.log.read_text())
