"""`asyncq roles`: print what a DBA reviews, or run it."""

import shutil
import subprocess
from functools import partial
from pathlib import Path

import pytest
from anyio.to_thread import run_sync

from asyncq.cli import main
from asyncq.store.statements import folder
from tests.support.cli import environment
from tests.support.roles import Roles, three_roles
from tests.support.session import session

Output = pytest.CaptureFixture[str]
WORDS = ["--worker", "app_worker", "--enqueuer", "app_web"]


def test_without_apply_the_script_is_printed_and_no_database_is_needed(
    capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The script is for psql, a review, or a tool that manages grants."""
    monkeypatch.delenv("DATABASE_URL", raising=False)
    code = main(["roles", *WORDS, "--schema", "jobs"])
    printed = capsys.readouterr().out

    assert 0 == code
    assert 'grant execute on function jobs.enqueue to "app_web";' in printed
    assert "asyncq." not in printed
    assert ("begin;", "commit;") == (printed.split("\n\n")[1].partition("\n")[0], printed.splitlines()[-1])


@pytest.mark.parametrize("missing", ["--worker", "--enqueuer"])
def test_both_roles_are_needed(missing: str, capsys: Output) -> None:
    """A default would touch a role of another application: roles belong to all databases of a server."""
    place = WORDS.index(missing)
    code = main(["roles", *WORDS[:place], *WORDS[place + 2 :]])

    assert (2, True) == (code, missing in capsys.readouterr().err)


async def apply(roles: Roles, by: str, worker: str) -> int:
    """Run the command with --apply in this process; returns its exit code."""
    words = ["--dsn", roles.dsn_of(by), "--schema", roles.schema, "--worker", worker, "--enqueuer", roles.enqueuer]
    return await run_sync(partial(main, ["roles", "--apply", *words]))


MAY_ADD = "select has_function_privilege($1, '{}.add_job'::regproc, 'execute')"


async def test_apply_grants_and_prints_the_roles(dsn: str, capsys: Output) -> None:
    """A deployment runs it after `asyncq migrate`."""
    async with three_roles(dsn) as roles, session(dsn, roles.schema) as sql:
        await sql.execute(f"revoke all on all functions in schema asyncq from {roles.worker}")
        before = await sql.value(MAY_ADD.format(roles.schema), roles.worker)
        code = await apply(roles, roles.owner, roles.worker)
        after = await sql.value(MAY_ADD.format(roles.schema), roles.worker)

    said = f"schema '{roles.schema}': '{roles.worker}' runs jobs, '{roles.enqueuer}' adds them\n"
    assert (0, said) == (code, capsys.readouterr().out)
    assert (False, True) == (before, after)


async def test_a_refusal_ends_with_exit_code_3_and_changes_nothing(dsn: str, capsys: Output) -> None:
    """Every command that the database refuses ends like this."""
    async with three_roles(dsn) as roles, session(dsn, roles.schema) as sql:
        code = await apply(roles, roles.owner, roles.owner)
        may_add = await sql.value(MAY_ADD.format(roles.schema), roles.owner)

    assert (3, True) == (code, may_add)
    assert "has all the rights of role" in capsys.readouterr().err


@pytest.mark.skipif(shutil.which("psql") is None, reason="there is no psql on this machine")
async def test_the_file_runs_in_psql_unchanged(dsn: str, tmp_path: Path) -> None:
    """A DBA need not have Python: psql puts its own variables in."""
    async with three_roles(dsn) as roles, session(dsn, roles.schema) as sql:
        script = tmp_path / "roles.sql"
        script.write_text((folder() / "roles.sql").read_text("utf-8").replace("asyncq", roles.schema))
        await sql.execute(f"revoke all on all functions in schema asyncq from {roles.worker}")
        variables = ["ON_ERROR_STOP=1", f"worker={roles.worker}", f"enqueuer={roles.enqueuer}"]
        command = [
            "psql",
            "-X",
            "-q",
            roles.dsn,
            *(word for one in variables for word in ("-v", one)),
            "-f",
            str(script),
        ]
        done = await run_sync(partial(subprocess.run, command, env=environment(), capture_output=True, text=True))
        may_add = await sql.value(MAY_ADD.format(roles.schema), roles.worker)

    assert (0, "", True) == (done.returncode, done.stderr, may_add)
