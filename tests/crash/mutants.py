"""Planted bugs: each is found by the tests that are named with it. `python -m tests.crash.mutants [NAME ...]` shows it.

A suite that finds nothing may be blind. The checkout is copied, one bug is planted in the copy, its tests have to fail
there; without it they pass in `make test` and `make test-crash`.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
COPIED = ("asyncq", "sql", "tests", "pyproject.toml")
LIMIT_S = 120
CHAOS = "tests/crash/test_chaos.py"
CLOCKS = "tests/crash/test_clocks.py"
STATEMENTS = "tests/crash/test_every_statement.py"
LIFE = "tests/sql/test_life_model.py"
LEASES = "tests/engine/test_leases.py"


@dataclass(frozen=True)
class Mutant:
    """A planted bug.

    Attributes:
        name: What is wrong.
        path: The file, from the top of the checkout.
        right: A piece of its text, which stands there once.
        wrong: What it becomes.
        tests: What finds it: files, or test ids.
    """

    name: str
    path: str
    right: str
    wrong: str
    tests: tuple[str, ...]


MUTANTS = [
    Mutant(
        "a running worker does not see that the schema needs a newer release",
        "asyncq/engine/heartbeat.py",
        "        await self._check_release()\n\n",
        "\n",
        ("tests/engine/test_outgrown.py",),
    ),
    Mutant(
        "a migration that stops older workers does not tell them",
        "asyncq/store/migrate.py",
        "    if needs is not None:\n",
        "    if needs is None:\n",
        ("tests/engine/test_outgrown.py",),
    ),
    Mutant(
        "a settlement is not fenced by the token of its claim",
        "sql/queries/settle_completed.sql",
        "and lock_token = (",
        "and 0 < (",
        ("tests/sql/test_settle.py", LIFE),
    ),
    Mutant(
        "a settlement waits for a row that somebody holds",
        "sql/queries/settle_completed.sql",
        "for update skip locked",
        "for update",
        ("tests/store/test_settle_races.py",),
    ),
    Mutant(
        "a succession is not fenced by the token of its claim",
        "sql/queries/settle_and_take.sql",
        "and lock_token = (",
        "and 0 < (",
        ("tests/sql/test_settle_and_take.py",),
    ),
    Mutant(
        "a succession waits for a follower that somebody holds",
        "sql/queries/settle_and_take.sql",
        "    for update skip locked) as job",
        "    for update) as job",
        ("tests/store/test_succession_races.py",),
    ),
    Mutant(
        "a succession frees a queue that goes on",
        "sql/queries/settle_and_take.sql",
        " except select queue from next",
        "",
        ("tests/sql/test_settle_and_take.py", "tests/store/test_queue_model.py"),
    ),
    Mutant(
        "a failed settlement leaves its queue locked",
        "sql/queries/settle_changed.sql",
        "where name = any(array(select queue from held where queue is not null)) and locked_by = $1",
        "where false",
        (LIFE,),
    ),
    Mutant(
        "a wake-up is cleared after the last look",
        "asyncq/engine/fetcher.py",
        "            await self._set_alarm(sent_at, after)\n",
        "            await self._set_alarm(sent_at, after)\n            self._woken = False\n",
        ("tests/engine/test_fetcher.py",),
    ),
    Mutant(
        "a fetch whose answer was lost is forgotten",
        "asyncq/engine/fetcher.py",
        "                self.lost.note(worker_id, token)\n",
        "                pass\n",
        (STATEMENTS,),
    ),
    Mutant(
        "a settlement that could not be written is not tried again",
        "asyncq/engine/completer.py",
        "                await self._back_off(error, tries)\n",
        "                self._writing.clear()\n",
        (STATEMENTS,),
    ),
    Mutant(
        "the claims of a lost fetch are not given back",
        "sql/functions/return_lost.sql",
        "lock_token = any(tokens)",
        "lock_token = any(tokens) and false",
        (STATEMENTS,),
    ),
    Mutant(
        "the slot of a recurring item is not claimed",
        "sql/functions/open_slots.sql",
        "where (known.last_execution is null or known.last_execution < given.slot)",
        "where true",
        ("tests/engine/test_cron_processes.py",),
    ),
    Mutant(
        "a paused recurring item goes on",
        "sql/functions/open_slots.sql",
        "      and known.paused_at is null\n",
        "",
        ("tests/store/test_cron_races.py",),
    ),
    Mutant(
        "a recurring item that was changed is added as it was",
        "sql/functions/open_slots.sql",
        "and stored.revision = given.revision)",
        ")",
        ("tests/store/test_cron_races.py",),
    ),
    Mutant(
        "a slot of a recurring item is added without holding the item",
        "sql/functions/due_slots.sql",
        " where one = any(open_before)",
        "",
        ("tests/store/test_cron_races.py",),
    ),
    Mutant(
        "a stored recurring item is due since a worker has heard of it",
        "asyncq/engine/timetable.py",
        "self._before(known[name]) if entry is None",
        "None if entry is None",
        ("tests/engine/test_stored_items.py",),
    ),
    Mutant(
        "a gate that was passed before is not written",
        "sql/functions/gate.sql",
        "do update set used_at = pg_catalog.clock_timestamp()",
        "do nothing",
        ("tests/store/test_key_races.py",),
    ),
    Mutant(
        "a job comes back from the dead beside an add that has passed its gate",
        "sql/functions/administer_jobs.sql",
        "  if act = 'retry' or act = 'reschedule' and",
        "  if act = 'reviving' and",
        ("tests/store/test_unique_races.py",),
    ),
    Mutant(
        "a lost run is no attempt",
        "sql/functions/rescue_jobs.sql",
        "least(job.attempts + 1,",
        "least(job.attempts,",
        (LIFE,),
    ),
    Mutant(
        "a rescue leaves the queue of the dead locked",
        "sql/functions/rescue_jobs.sql",
        "where queue.locked_by = any(gone)",
        "where queue.locked_by = any(gone) and false",
        (LIFE,),
    ),
    Mutant(
        "a beat proves nothing",
        "sql/queries/beat.sql",
        "set last_seen = pg_catalog.clock_timestamp()",
        "set last_seen = last_seen",
        (CHAOS,),
    ),
    Mutant(
        "a queue that another fetch has just taken counts as held",
        "sql/functions/hold_queues.sql",
        "coalesce(array_agg(taken.name), '{}') into held from taken",
        "names into held from (select from taken) as took",
        ("tests/store/test_queue_races.py",),
    ),
    Mutant(
        "a job that was cancelled while it ran is tried again",
        "sql/queries/settle_changed.sql",
        "and cancelled_at is null and rerun is null",
        "and rerun is null",
        (LIFE,),
    ),
    Mutant(
        "the key of a removed job that runs on lets it be tried again",
        "sql/functions/remove_job_core.sql",
        "set key = null, attempts = held.max_attempts",
        "set key = null, attempts = held.attempts",
        (LIFE,),
    ),
    Mutant(
        "a request that is made again makes another job",
        "sql/functions/add_distinct_jobs.sql",
        "  if exists (select from unnest(dedupes) as given where given ? 'request') then",
        "  if false then",
        (STATEMENTS,),
    ),
    Mutant(
        "a worker whose lock is free has no grace",
        "sql/functions/is_live.sql",
        "worker.doubted_at + asyncq._grace()",
        "worker.doubted_at",
        ("tests/sql/test_is_live.py",),
    ),
    Mutant(
        "a worker that is back is rescued nevertheless",
        "sql/functions/rescue_jobs.sql",
        "where not dead.is_leased or pg_try_advisory_xact_lock(asyncq._lock_space(), dead.id)",
        "where true",
        ("tests/sql/test_rescue_jobs.py",),
    ),
    Mutant(
        "the notes of a crashed server stay",
        "sql/migrations/000003_workers.sql",
        "create unlogged table",
        "create table",
        (LEASES,),
    ),
    Mutant(
        "a worker in doubt goes on",
        "asyncq/engine/heartbeat.py",
        'self._give_up("the connection that holds its lock was lost")',
        "pass",
        (LEASES,),
    ),
    Mutant(
        "a lost lock is held against a worker that has other connections",
        "asyncq/engine/stand_in.py",
        "if line.is_open and await self._beat(line):",
        "if False:",
        (LEASES,),
    ),
    Mutant(
        "suspects run unnamed",
        "asyncq/engine/admission.py",
        "        if not is_suspect(claim):",
        "        if True:",
        (LEASES,),
    ),
    Mutant(
        "a transactional handler holds its row against adds of its key",
        "sql/functions/hold_claim.sql",
        "for key share;",
        "for update;",
        ("tests/store/test_transaction_races.py",),
    ),
    Mutant(
        "a transaction completes a job that was cancelled meanwhile",
        "sql/functions/complete_held.sql",
        "return 'cancelled';",
        "perform asyncq._end_jobs(array[job], 'completed');",
        ("tests/engine/test_transactional_marks.py",),
    ),
    Mutant(
        "a transaction whose COMMIT was lost is never told from one that was rolled back",
        "sql/functions/fate.sql",
        "when word = 'committed' then 'committed'",
        "when word = 'committed' then 'lost'",
        ("tests/engine/test_commit_outcome.py",),
    ),
    Mutant(
        "a job is due by the clock of its worker",
        "asyncq/store/jobs.py",
        'rows = await line.fetch("fetch_plain_jobs", *arguments) if plain_first else []',
        "own = datetime.now().astimezone()\n    arguments = (*arguments[:-1], own)\n"
        '    rows = await line.fetch("fetch_plain_jobs", *arguments) if plain_first else []',
        (CLOCKS,),
    ),
    Mutant(
        "recurring items go by the clock of their worker",
        "asyncq/store/crontabs.py",
        'return row["now"], row["items"]',
        'return datetime.now(row["now"].tzinfo), row["items"]',
        (CLOCKS,),
    ),
    Mutant(
        "a worker that is cut off goes on beyond its lease",
        "asyncq/engine/heartbeat.py",
        'self._give_up, "its lease is about to end")',
        'len, "its lease is about to end")',
        (CHAOS,),
    ),
    Mutant(
        "a lease is counted from the answer to a sign of life",
        "asyncq/engine/heartbeat.py",
        "self._lease.prove(sent_at)",
        "self._lease.prove(now_s())",
        ("tests/engine/test_heartbeat.py",),
    ),
    Mutant(
        "a transaction is committed although its claim is gone",
        "asyncq/engine/settling.py",
        """        if ending == "lost":
            self.settled = "lost"
            return Completed()
        since""",
        "        since",
        ("tests/engine/test_transactional.py",),
    ),
    Mutant(
        "the transaction of a silent worker holds its job for ever",
        "sql/functions/end_transactions.sql",
        "> 2 * worker.lease",
        "> 2000 * worker.lease",
        ("tests/sql/test_end_transactions.py",),
    ),
    Mutant(
        "a completion in a transaction is not fenced by the token of its claim",
        "sql/functions/complete_held.sql",
        "and held.lock_token = token",
        "and token > 0",
        ("tests/sql/test_complete_held.py",),
    ),
    Mutant(
        "a process that was stopped accuses a handler",
        "asyncq/engine/guardian.py",
        "elif now - due_at > pause_s:",
        "elif False:",
        ("tests/engine/test_guardian.py",),
    ),
    Mutant(
        "who blocks the loop is noted in a job that is another worker's by now",
        "sql/queries/note_block.sql",
        "and locked_by = $1 and lock_token = $3",
        "and $1 > 0 and $3 > 0",
        ("tests/sql/test_note_block.py",),
    ),
    Mutant(
        "a stuck thread keeps the place of the next one",
        "asyncq/engine/stuck.py",
        "self._threads.total_tokens += 1",
        "pass",
        ("tests/engine/test_stuck.py",),
    ),
    Mutant(
        "a handler that had no turn to end counts as stuck",
        "asyncq/engine/stuck.py",
        "if asyncio.get_running_loop().time() - due_at > STUCK_S / 2:",
        "if False:",
        ("tests/engine/test_stuck.py",),
    ),
    Mutant(
        "a stored item that was changed is known as it was",
        "asyncq/engine/timetable.py",
        "before[name].revision != one.revision",
        "False",
        ("tests/engine/test_stored_items.py",),
    ),
    Mutant(
        "an item that is stored and in a crontab is added by both",
        "sql/functions/open_slots.sql",
        "and not asyncq._is_declared(given.identifier))",
        ")",
        ("tests/store/test_cron_races.py",),
    ),
]


def planted(mutant: Mutant, folder: Path) -> Path:
    """A copy of the checkout with the bug in it."""
    copy = folder / re.sub(r"\W+", "-", mutant.name)
    copy.mkdir()
    for name in COPIED:
        source = CHECKOUT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, copy / name)
    if (tools := CHECKOUT / ".venv").is_dir():
        (copy / tools.name).symlink_to(tools)  # What was fetched for tests is there.
    path = copy / mutant.path
    text = path.read_text("utf-8")
    if text.count(mutant.right) != 1:
        raise SystemExit(
            f"{mutant.name}: {mutant.path} has {mutant.right!r} {text.count(mutant.right)} times, not once"
        )
    path.write_text(text.replace(mutant.right, mutant.wrong), "utf-8")
    return copy


def found(mutant: Mutant, copy: Path) -> str | None:
    """The first test that fails in the copy; None if all pass, or hang."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-s",
        "-p",
        "no:cacheprovider",
        "-m",
        "not slow",
        *mutant.tests,
    ]
    variables = {**os.environ, "PYTHONPATH": str(copy), "ASYNCQ_CHAOS_S": "20", "ASYNCQ_CHAOS_SEED": "1"}
    try:
        done = subprocess.run(command, cwd=copy, env=variables, capture_output=True, text=True, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return None
    return next(iter(re.findall(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)), None)


def chosen(words: Sequence[str]) -> Iterator[Mutant]:
    """The mutants whose names hold one of the words; all if there are none."""
    return (mutant for mutant in MUTANTS if not words or any(word in mutant.name for word in words))


def main(words: Sequence[str]) -> int:
    """Plant each bug in turn; 1 if one is not found."""
    missed = 0
    with tempfile.TemporaryDirectory(prefix="asyncq-mutants-") as folder:
        for mutant in chosen(words):
            began = time.monotonic()
            test = found(mutant, planted(mutant, Path(folder)))
            missed += test is None
            said = f"found in {time.monotonic() - began:.0f} s by {test}" if test else "NOT FOUND"
            print(f"{mutant.name}: {said}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
