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

from tests.crash.planting import CHECKOUT, Replaced, ReplacedSql
from tests.crash.replaced import REPLACED

COPIED = ("asyncq", "sql", "tests", "pyproject.toml")
LIMIT_S = 120
BATCHES = "tests/store/test_batch_races.py"
LEASES = "tests/engine/liveness/test_leases.py"


@dataclass(frozen=True)
class Mutant:
    """A bug that changes a piece of text, for what has no name; replaced.py has the others.

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

    def plant(self, copy: Path) -> None:
        """Change the text in a copy of the checkout."""
        path = copy / self.path
        path.write_text(path.read_text("utf-8").replace(self.right, self.wrong), "utf-8")

    def trouble(self) -> str | None:
        """Why it cannot be planted; None if it can."""
        count = (CHECKOUT / self.path).read_text("utf-8").count(self.right)
        if self.wrong == self.right:
            return "it changes nothing"
        return None if count == 1 else f"{self.path} has {self.right!r} {count} times, not once"


# Of fetch_jobs: the node that locks jobs without a queue.
PLAIN_JOBS = """ as is_batchable
    from asyncq._jobs as job
    where job.queue is null and asyncq._is_ready(job) and priority = priorities.priority
"""
COMPLETE_IN = (
    "    locked = await lock_claim(database, connection, worker_id, claim)\n    if not locked.is_current and any("
)
CHANGED = [
    Mutant(
        "a transaction that cancels its own job is rolled back, and its job runs for ever",
        "sql/functions/settle/lock_claim.sql",
        "is_cancelled and not is_own_doing",
        "is_cancelled",
        ("tests/sql/settle/test_complete_claim.py", "tests/engine/run/test_transactional_ends.py"),
    ),
    Mutant(
        "a connection that is lost under a handler costs an attempt",
        "asyncq/engine/run/transactions.py",
        "transaction.was_lost or ",
        "",
        ("tests/engine/run/test_transactional_ends.py",),
    ),
    Mutant(
        "a due time that becomes known during a poll is forgotten",
        "asyncq/engine/fetch/fetcher.py",
        "            schedule.wake_in(due_s)\n        return True",
        "            schedule.wake_in(due_s)\n        schedule.poll_later()\n        return True",
        ("tests/engine/fetch/test_fetcher.py",),
    ),
    Mutant(
        "a suspect that is cancelled while it waits starts",
        "asyncq/engine/liveness/start_gate.py",
        " and name not in self._cancelled",
        "",
        ("tests/engine/liveness/test_start_gate.py",),
    ),
    Mutant(
        "a worker that ends takes the signals of the others with it",
        "asyncq/engine/signals.py",
        "        _asked.remove(mine)\n        if not _asked:\n            _restore()",
        "        _asked.remove(mine)\n        _restore()",
        ("tests/engine/test_signals.py",),
    ),
    Mutant(
        "a settlement is not fenced by the token of its claim",
        "sql/queries/settle/settle_completed.sql",
        "and lock_token = (",
        "and 0 < (",
        ("tests/sql/settle/test_settle.py::test_nobody_settles_the_claim_of_another",),
    ),
    Mutant(
        "a settlement that was refused is told as written",
        "sql/queries/settle/settle_completed.sql",
        "when count(*) < cardinality(",
        "when count(*) > cardinality(",
        ("tests/sql/settle/test_settle.py::test_nobody_settles_the_claim_of_another",),
    ),
    Mutant(
        "a slot that is cancelled while others run keeps its wake-up",
        "asyncq/engine/fetch/buffer.py",
        "                self._wake_one()  # It may have been woken for one of them.\n",
        "                pass\n",
        ("tests/engine/fetch/test_buffer.py",),
    ),
    Mutant(
        "what handlers held before a pause delays the next job",
        "asyncq/engine/fetch/buffer.py",
        "            self._held_s = 0.0  # Others",
        "            pass  # Others",
        ("tests/engine/fetch/test_buffer.py",),
    ),
    Mutant(
        "a client is not told which job it has taken the key from",
        "sql/functions/add/add_many_jobs.sql",
        "held.outcome <> 'added' or held.existing_id is not null",
        "held.outcome <> 'added'",
        ("tests/sql/add/test_add_many_jobs.py",),
    ),
    Mutant(
        "a settlement waits for a row that somebody holds",
        "sql/queries/settle/settle_completed.sql",
        "order by id for update skip locked",
        "order by id for update",
        ("tests/store/test_settle_races.py",),
    ),
    Mutant(
        "a succession is not fenced by the token of its claim",
        "sql/queries/claim/claim_next.sql",
        "and lock_token = (",
        "and 0 < (",
        ("tests/sql/claim/test_claim_next.py",),
    ),
    Mutant(
        "a succession waits for a follower that somebody holds",
        "sql/queries/claim/claim_next.sql",
        "    for update skip locked) as job",
        "    for update) as job",
        ("tests/store/test_claim_next_races.py",),
    ),
    Mutant(
        "a succession frees a queue that goes on",
        "sql/queries/claim/claim_next.sql",
        " except select queue from next",
        "",
        ("tests/sql/claim/test_claim_next.py", "tests/store/test_queue_model.py"),
    ),
    Mutant(
        "a failed settlement leaves its queue locked",
        "sql/functions/settle/release.sql",
        "where name = any(queues) and locked_by = any(owners);",
        "where false;",
        ("tests/sql/settle/test_settle.py::test_a_settlement_without_numbers_only_unlocks",),
    ),
    Mutant(
        "a wake-up is cleared after the last look",
        "asyncq/engine/fetch/fetcher.py",
        "                await self._set_alarm(scan)\n",
        "                await self._set_alarm(scan)\n                schedule.is_woken = False\n",
        ("tests/engine/fetch/test_fetcher.py",),
    ),
    Mutant(
        "an administrator's call acts on rows that came back while it waited",
        "sql/functions/admin/administer_jobs.sql",
        "    where job.id = any(locked) and case act\n",
        "    where job.id = any(job_ids) and case act\n",
        (f"{BATCHES}::test_a_call_leaves_alone_what_ran_in_a_batch_when_it_came",),
    ),
    Mutant(
        "each settlement that is held up puts off all others",
        "asyncq/engine/settle/outbox.py",
        "        if held and not self._held_back:",
        "        if held:",
        (
            "tests/engine/settle/test_completer.py::test_a_row_that_is_free_again_is_settled_however_many_others_are_held",
        ),
    ),
    Mutant(
        "lost claims that somebody holds are forgotten",
        "asyncq/engine/fetch/unconfirmed.py",
        "            if lost in held or not",
        "            if not",
        ("tests/engine/fetch/test_unconfirmed.py::test_claims_that_somebody_holds_are_not_forgotten",),
    ),
    Mutant(
        "each good end is written by itself, however many there are",
        "asyncq/engine/settle/completer.py",
        "if pace < many or",
        "if pace >= many or",
        ("tests/engine/settle/test_gathering.py::test_enough_ends_are_written_together",),
    ),
    Mutant(
        "a queue waits for other ends to be gathered",
        "asyncq/engine/settle/completer.py",
        " in (1, ENOUGH) or run.claim.queue is not None:",
        " in (1, ENOUGH):",
        ("tests/engine/settle/test_gathering.py::test_the_end_of_a_queues_job_waits_for_no_others",),
    ),
    Mutant(
        "the first end of a queue's job is kept for others",
        "asyncq/engine/settle/completer.py",
        "        return all(run.claim.queue is None for run in self._outbox.well.values())\n",
        "        return True\n",
        ("tests/engine/settle/test_gathering.py::test_a_queues_job_that_has_ended_first_is_not_kept_for_others",),
    ),
    Mutant(
        "a stop waits until enough ends are gathered",
        "asyncq/engine/settle/completer.py",
        " or self._closing or self._outbox.pending or len(self._outbox.well) >= ENOUGH:",
        " or self._outbox.pending or len(self._outbox.well) >= ENOUGH:",
        ("tests/engine/settle/test_gathering.py::test_what_ended_during_a_write_at_the_stop_is_not_kept_for_others",),
    ),
    Mutant(
        "the slot of a recurring item is not claimed",
        "sql/functions/cron/add_slots.sql",
        "where (known.last_execution is null or known.last_execution < given.slot)",
        "where true",
        ("tests/engine/cron/test_processes.py",),
    ),
    Mutant(
        "a paused recurring item goes on",
        "sql/functions/cron/add_slots.sql",
        "      and known.paused_at is null\n",
        "",
        ("tests/store/test_cron_races.py",),
    ),
    Mutant(
        "a recurring item that was changed is added as it was",
        "sql/functions/cron/add_slots.sql",
        "and stored.revision = given.revision)",
        ")",
        ("tests/store/test_cron_races.py",),
    ),
    Mutant(
        "a slot of a recurring item is added without holding the item",
        "sql/functions/cron/add_slots.sql",
        " where one = any(addable)",
        "",
        ("tests/store/test_cron_races.py",),
    ),
    Mutant(
        "a stored recurring item is due since a worker has heard of it",
        "asyncq/engine/cron/timetable.py",
        "self._before(known[name]) if entry is None",
        "None if entry is None",
        ("tests/engine/cron/test_stored_items.py",),
    ),
    Mutant(
        "a job comes back from the dead beside an add that has locked its key",
        "sql/functions/admin/administer_jobs.sql",
        "  if act = 'retry' or act = 'reschedule' and",
        "  if act = 'reviving' and",
        ("tests/store/test_unique_races.py",),
    ),
    Mutant(
        "a lost run is no attempt",
        "sql/functions/workers/rescue_jobs.sql",
        "attempts => ran::int[], ",
        "",
        ("tests/sql/workers/test_rescue_jobs.py::test_a_dead_workers_jobs_come_back_with_one_attempt_less",),
    ),
    Mutant(
        "a rescue leaves the queue of the dead locked",
        "sql/functions/workers/rescue_jobs.sql",
        "where queue.locked_by = any(gone)",
        "where queue.locked_by = any(gone) and false",
        ("tests/sql/workers/test_rescue_jobs.py::test_a_dead_workers_jobs_come_back_with_one_attempt_less",),
    ),
    Mutant(
        "a beat proves nothing",
        "sql/queries/workers/beat.sql",
        "set last_seen = pg_catalog.clock_timestamp()",
        "set last_seen = last_seen",
        ("tests/sql/test_queries.py::test_a_worker_registers_beats_and_leaves",),
    ),
    Mutant(
        "a queue that another fetch has just taken counts as held",
        "sql/functions/claim/lock_queues.sql",
        "coalesce(array_agg(taken.name), '{}') into held from taken",
        "names into held from (select from taken) as took",
        ("tests/store/test_queue_races.py",),
    ),
    Mutant(
        "a job that was cancelled while it ran is tried again",
        "sql/functions/settle/release.sql",
        "array_agg(job.id) filter (where job.cancelled_at is not null),",
        "array_agg(job.id) filter (where false),",
        ("tests/sql/settle/test_settle_rest.py::test_a_marked_job_ends_as_its_mark_says_whatever_its_run_came_to",),
    ),
    Mutant(
        "a settlement of another claim of the same job is written",
        "sql/functions/settle/settle_rest.sql",
        "where job.id = given.id and job.locked_by = worker and job.lock_token = given.token\n      for",
        "where job.id = given.id and job.locked_by = worker\n      for",
        ("tests/sql/settle/test_settle.py::test_nobody_settles_the_claim_of_another",),
    ),
    Mutant(
        "the key of a removed job that runs on lets it be tried again",
        "sql/functions/admin/remove_job.sql",
        "set key = null, attempts = held.max_attempts",
        "set key = null, attempts = held.attempts",
        ("tests/sql/admin/test_remove_job.py",),
    ),
    Mutant(
        "a request that is made again makes another job",
        "sql/functions/add/resolve_unique.sql",
        "  if exists (select from unnest(extras) as given where given ? 'request') then",
        "  if false then",
        ("tests/sql/unique/test_store_requests.py",),
    ),
    Mutant(
        "a worker that is back is rescued nevertheless",
        "sql/functions/workers/rescue_jobs.sql",
        "where candidate.is_certain or pg_try_advisory_xact_lock(asyncq._lock_space(), candidate.id)",
        "where true",
        ("tests/sql/workers/test_rescue_jobs.py",),
    ),
    Mutant(
        "the notes of a crashed server stay",
        "sql/migrations/000002_workers.sql",
        "create unlogged table",
        "create table",
        (f"{LEASES}::test_a_crash_of_one_backend_frees_all_locks_and_nobody_is_taken_for_dead",),
    ),
    Mutant(
        "a worker in doubt goes on",
        "asyncq/engine/liveness/lease_state.py",
        'self._give_up("the connection that holds its lock was lost")',
        "pass",
        (f"{LEASES}::test_a_worker_that_is_cut_off_cancels_its_jobs_before_another_one_runs_them",),
    ),
    Mutant(
        "a lost lock is held against a worker that has other connections",
        "asyncq/engine/liveness/fallback_heartbeat.py",
        "if line.is_open and await self._beat(line):",
        "if False:",
        (f"{LEASES}::test_a_worker_that_lost_the_connection_of_its_lock_only_says_over_another_that_it_lives",),
    ),
    Mutant(
        "suspects run unnamed",
        "asyncq/engine/liveness/start_gate.py",
        "        if not has_to_be_named(claim):",
        "        if True:",
        (f"{LEASES}::test_a_job_of_which_nobody_knows_whether_it_ran_is_named_before_it_runs",),
    ),
    Mutant(
        "a transactional handler holds its row against adds of its key",
        "sql/functions/settle/lock_claim.sql",
        "for key share)",
        "for update)",
        ("tests/store/test_transaction_races.py",),
    ),
    Mutant(
        "a transaction completes a job that was cancelled meanwhile",
        "sql/functions/settle/lock_claim.sql",
        "return 'cancelled';",
        "perform asyncq._end_jobs(array[job], 'completed');",
        ("tests/engine/run/test_transactional_marks.py",),
    ),
    Mutant(
        "a transaction whose COMMIT was lost is never told from one that was rolled back",
        "sql/functions/settle/lock_claim.sql",
        "when word = 'committed' then 'committed'",
        "when word = 'committed' then 'lost'",
        ("tests/engine/run/test_commit_outcome.py",),
    ),
    Mutant(
        "a job is due by the clock of its worker",
        "asyncq/store/claim.py",
        "*cursor, None, after.since_s)",
        "*cursor, datetime.now().astimezone(), after.since_s)",
        ("tests/store/test_jobs.py::test_jobs_are_due_by_the_clock_of_the_schema_not_by_that_of_this_process",),
    ),
    Mutant(
        "recurring items go by the clock of their worker",
        "asyncq/store/crontabs.py",
        'return row["now"], row["items"]',
        'return datetime.now(row["now"].tzinfo), row["items"]',
        ("tests/store/test_crontabs.py::test_the_time_of_recurring_items_is_that_of_the_schema",),
    ),
    Mutant(
        "a worker that is cut off goes on beyond its lease",
        "asyncq/engine/liveness/lease_state.py",
        'self._give_up, "its lease is about to end")',
        'len, "its lease is about to end")',
        (f"{LEASES}::test_a_worker_that_reaches_nobody_cancels_its_jobs_before_its_lease_is_over",),
    ),
    Mutant(
        "a lease is counted from the answer to a sign of life",
        "asyncq/engine/liveness/lease_state.py",
        "self._lease.prove(sent_at)",
        "self._lease.prove(now_s())",
        ("tests/engine/liveness/test_heartbeat.py",),
    ),
    Mutant(
        "a transaction is committed although its claim is gone",
        "asyncq/engine/run/transactions.py",
        """        if ending == "lost":
            self.settled = "lost"
            return Completed()
        since""",
        "        since",
        ("tests/engine/run/test_transactional.py",),
    ),
    Mutant(
        "the transaction of a silent worker holds its job for ever",
        "sql/functions/workers/end_transactions.sql",
        "> 2 * worker.lease",
        "> 2000 * worker.lease",
        ("tests/sql/workers/test_end_transactions.py",),
    ),
    Mutant(
        "a completion in a transaction is not fenced by the token of its claim",
        "sql/functions/settle/lock_claim.sql",
        "and held.lock_token = token\n    for update;",
        "and token > 0\n    for update;",
        ("tests/sql/settle/test_complete_claim.py",),
    ),
    Mutant(
        "a process that was stopped accuses a handler",
        "asyncq/engine/liveness/loop_watchdog.py",
        "elif now - due_at > pause_s:",
        "elif False:",
        ("tests/engine/liveness/test_loop_watchdog.py",),
    ),
    Mutant(
        "who blocks the loop is noted in a job that is another worker's by now",
        "sql/functions/settle/note_block.sql",
        "id = job and locked_by = worker and lock_token = token",
        "id = job",
        ("tests/sql/settle/test_note_block.py",),
    ),
    Mutant(
        "a stuck thread keeps the place of the next one",
        "asyncq/engine/run/stuck.py",
        "self._threads.total_tokens += 1",
        "pass",
        ("tests/engine/run/test_stuck.py",),
    ),
    Mutant(
        "a handler that had no turn to end counts as stuck",
        "asyncq/engine/run/stuck.py",
        "if asyncio.get_running_loop().time() - due_at > STUCK_S / 2:",
        "if False:",
        ("tests/engine/run/test_stuck.py",),
    ),
    Mutant(
        "a stored item that was changed is known as it was",
        "asyncq/engine/cron/timetable.py",
        "before[name].revision != one.revision",
        "False",
        ("tests/engine/cron/test_stored_items.py",),
    ),
    Mutant(
        "an item that is stored and in a crontab is added by both",
        "sql/functions/cron/add_slots.sql",
        "and not asyncq._is_declared(given.identifier))",
        ")",
        ("tests/store/test_cron_races.py",),
    ),
    Mutant(
        "the claims of another worker go back as lost ones",
        "sql/functions/settle/settle_rest.sql",
        "where locked_by = worker and lock_token = any(tokens)\n",
        "where lock_token = any(tokens)\n",
        ("tests/sql/settle/test_return_lost.py",),
    ),
    Mutant(
        "a settlement waits for a batch that somebody splits",
        "sql/queries/settle/settle_completed.sql",
        "for update skip locked),\nclosed",
        "for update),\nclosed",
        (BATCHES,),
    ),
    Mutant(
        "what was closed in a batch that has moved counts as written",
        "sql/queries/settle/settle_completed.sql",
        "\n  where lock_token in (select lock_token from removed union all select lock_token from kept_open)",
        "",
        (BATCHES,),
    ),
    Mutant(
        "what is settled twice is closed twice",
        "sql/queries/settle/settle_completed.sql",
        "then get_bit(batches.unsettled, width_bucket(ended.id, batches.ids) - 1) = 1 end",
        "then true end",
        (BATCHES,),
    ),
    Mutant(
        "a batch is settled by who holds it no more",
        "sql/queries/settle/settle_completed.sql",
        "where locked_by = $1 and lock_token = any((select tokens",
        "where lock_token = any((select tokens",
        (BATCHES,),
    ),
    Mutant(
        "what a batch has no room for is batched",
        "sql/queries/claim/fetch_jobs.sql",
        "asyncq._is_batchable(job) and not asyncq._is_known(job, (select $12::text::int[]))" + PLAIN_JOBS,
        "not asyncq._is_known(job, (select $12::text::int[]))" + PLAIN_JOBS,
        ("tests/sql/claim/test_is_batchable.py",),
    ),
    Mutant(
        "what has moved before it was locked is left",
        "sql/queries/claim/fetch_jobs.sql",
        "    union all\n    select id from moved))",
        "  ))",
        ("tests/store/test_fetch_races.py::test_a_claim_shows_the_newest_payload",),
    ),
    Mutant(
        "all jobs of a batch are told as created when they are due",
        "asyncq/store/claim.py",
        'sent_numbers(created, "q") if created else moments',
        "moments",
        ("tests/store/test_fetched_claims.py",),
    ),
    Mutant(
        "a job of a queue that ended in a batch leaves its queue locked",
        "sql/queries/settle/settle_completed.sql",
        "select unnest(queues) from closed",
        "select null from closed",
        ("tests/sql/claim/test_batched_queues.py", BATCHES),
    ),
    Mutant(
        "a rescue frees the queues of batches that live",
        "sql/functions/workers/rescue_jobs.sql",
        "          and queue.name not in (select asyncq._batched_queues())\n",
        "",
        (BATCHES,),
    ),
    Mutant(
        "a batch brings back what has ended",
        "sql/functions/claim/split_batches.sql",
        "where get_bit(gone.unsettled, batched.ordinal::int - 1) = 1",
        "where true",
        ("tests/sql/claim/test_split_batches.py",),
    ),
    Mutant(
        "the batches of a dead worker are not returned",
        "sql/functions/workers/rescue_jobs.sql",
        "where locked_by = any(gone) order by locked_by, lock_token",
        "where false order by locked_by, lock_token",
        (BATCHES,),
    ),
    Mutant(
        "a worker is forgotten whose batch somebody holds",
        "sql/functions/workers/rescue_jobs.sql",
        "      and not exists (select from asyncq._batches as batch where batch.locked_by = worker.id)\n",
        "",
        (BATCHES,),
    ),
    Mutant(
        "a cancel overlooks a job that a fetch has batched meanwhile",
        "sql/functions/admin/administer_jobs.sql",
        "exit when act <> 'cancel' or cardinality(locked) = cardinality(job_ids) or locked = before;",
        "exit;",
        ("tests/store/test_cancel_races.py::test_a_cancel_comes_after_what_is_being_done_to_the_job",),
    ),
    Mutant(
        "what failed in a batch stays there",
        "sql/functions/settle/settle_rest.sql",
        "perform asyncq._split_batches_of_worker(worker, array(select distinct unnest(tokens)));",
        "",
        ("tests/sql/settle/test_settle_rest.py::test_the_batches_of_its_claims_are_split_and_no_others",),
    ),
    Mutant(
        "a completion splits the batch before its own connection is asked",
        "asyncq/store/transactions.py",
        COMPLETE_IN,
        "    await split_batch()\n" + COMPLETE_IN,
        ("tests/engine/run/test_own_transactions_in_batches.py",),
    ),
    Mutant(
        "a snapshot that is older than the row of a job is taken for a lost claim",
        "asyncq/store/transactions.py",
        "    if exists and locked.state in (",
        "    if not exists and locked.state in (",
        ("tests/engine/run/test_own_transactions_in_batches.py",),
    ),
    Mutant(
        "jobs that their handlers may complete are batched",
        "asyncq/engine/base/identity.py",
        " if task.needs_row]",
        " if not task]",
        ("tests/engine/fetch/test_batches.py",),
    ),
    Mutant(
        "a fetch begins at the job that was taken last",
        "sql/queries/claim/fetch_jobs.sql",
        PLAIN_JOBS + "      and (run_at, id) > (",
        PLAIN_JOBS + "      and (run_at, id) >= (",
        ("tests/sql/claim/test_fetch_jobs.py::test_a_fetch_begins_after_the_cursor",),
    ),
    Mutant(
        "the order of a fetch is left to the plan",
        "sql/queries/claim/fetch_jobs.sql",
        "order by run_at, id limit $3\n    for update",
        "limit $3\n    for update",
        ("tests/sql/claim/test_fetch_jobs.py::test_the_order_does_not_hang_on_the_plan",),
    ),
    Mutant(
        "a job that becomes due behind a fetch is slept over",
        "asyncq/engine/fetch/fetcher.py",
        "2 * (_now() - scan.sent_at)",
        "_now() - scan.sent_at",
        (
            "tests/engine/fetch/test_fetcher.py::test_a_job_that_becomes_due_while_the_question_is_on_its_way_is_not_slept_over",
        ),
    ),
    Mutant(
        "a later retry puts off an earlier one",
        "asyncq/engine/fetch/schedule.py",
        "self._look_at = min(self._look_at, _now() + delay_s)",
        "self._look_at = _now() + delay_s",
        (
            "tests/engine/fetch/test_fetcher.py::test_a_sleeping_fetcher_looks_at_the_earliest_of_the_times_that_it_was_told",
        ),
    ),
    Mutant(
        "a plain add loses what goes with the job",
        "asyncq/domain/job.py",
        " and self.meta is None and self.is_keyless",
        " and self.is_keyless",
        ("tests/house/test_job_fields.py",),
    ),
    Mutant(
        "a worker that stops is gone before it has handed over",
        "asyncq/engine/fetch/fetcher.py",
        "        await self._on_call.stop()\n",
        "",
        (
            "tests/engine/fetch/test_oncall.py::test_a_worker_that_stops_hands_over_before_its_handlers_have_ended",
            "tests/engine/fetch/test_oncall.py::test_a_worker_that_stops_hands_over_before_it_is_gone",
            "tests/engine/fetch/test_oncall.py::test_a_worker_that_is_put_on_call_while_it_stops_hands_over",
        ),
    ),
    Mutant(
        "a worker that cannot fetch hears for all others",
        "asyncq/engine/fetch/fetcher.py",
        "        self._on_call.no_room()\n        self._schedule.wake()\n",
        "        self._schedule.wake()\n",
        ("tests/engine/fetch/test_oncall.py::test_a_worker_that_cannot_fetch_hands_over",),
    ),
    Mutant(
        "an add does not ask again who listens",
        "sql/functions/claim/wake_workers.sql",
        " or asyncq._has_on_call()\n",
        "\n",
        ("tests/sql/claim/test_wake_workers.py::test_a_worker_that_begins_to_rest_while_an_add_asks_for_one_is_told",),
    ),
    Mutant(
        "the holders of keys are locked in any order",
        "sql/functions/unique/lock_keys.sql",
        "where job.key = any(job_keys) order by job.id + 0 for",
        "where job.key = any(job_keys) for",
        ("tests/store/test_lock_order.py",),
    ),
    Mutant(
        "an administrator locks jobs backwards",
        "sql/functions/admin/administer_jobs.sql",
        "where job.id = any(job_ids) order by job.id for no key update",
        "where job.id = any(job_ids) order by job.id desc for no key update",
        ("tests/store/test_lock_order.py",),
    ),
    Mutant(
        "the removal of a key waits for a transactional handler",
        "sql/functions/admin/remove_job.sql",
        "for no key update",
        "for update",
        ("tests/sql/admin/test_remove_job.py::test_a_handler_that_holds_its_row_is_not_waited_for",),
    ),
    Mutant(
        "two that look at once hide a free lock from each other",
        "sql/functions/workers/watch_workers.sql",
        "pg_try_advisory_xact_lock_shared",
        "pg_try_advisory_xact_lock",
        ("tests/sql/workers/test_watch_workers.py::test_two_that_look_at_once_both_see_a_free_lock",),
    ),
    Mutant(
        "a worker that has just beaten is doubted",
        "sql/functions/workers/watch_workers.sql",
        "where row.id = any(free) and row.locks and row.doubted_at is null",
        "where row.id = any(free)",
        ("tests/sql/workers/test_watch_workers.py::test_what_happens_to_a_worker_during_a_look_counts",),
    ),
    Mutant(
        "the transactions of the living end with those of the silent",
        "sql/functions/workers/end_transactions.sql",
        "substring(activity.application_name from '^asyncq worker ([0-9]+) ') = any(silent)",
        "activity.application_name like 'asyncq worker %'",
        ("tests/sql/workers/test_end_transactions.py::test_only_the_transactions_of_the_silent_are_ended",),
    ),
    Mutant(
        "a dead worker is the eldest",
        "sql/queries/workers/is_oldest.sql",
        " and asyncq._is_live(other)",
        "",
        ("tests/sql/test_queries.py::test_the_eldest_worker_is_the_oldest_one_that_lives",),
    ),
    Mutant(
        "a settlement that was held up stays beside that of a newer claim",
        "asyncq/engine/settle/outbox.py",
        "in (self.pending, self._held_back):",
        "in (self.pending,):",
        (
            "tests/engine/settle/test_completer.py::test_a_settlement_that_was_held_up_makes_way_for_that_of_a_newer_claim",
        ),
    ),
    Mutant(
        "a suspect starts on a beat that came too late",
        "asyncq/engine/liveness/start_gate.py",
        "await asked and self._lease.is_held and",
        "await asked and",
        ("tests/engine/liveness/test_start_gate.py",),
    ),
    Mutant(
        "a second message makes the canceller forget the first",
        "asyncq/engine/fetch/inbox.py",
        "for job in self._cancelled.union(jobs) if",
        "for job in jobs if",
        ("tests/engine/test_canceller.py::test_none_of_several_messages_before_the_answer_of_the_fetch_is_lost",),
    ),
    Mutant(
        "a queue goes on for ever while its worker knows of nobody who waits",
        "asyncq/engine/fetch/schedule.py",
        " and _now() - self._sent_at <= LONGEST_TURN_S",
        "",
        ("tests/engine/settle/test_claim_next.py",),
    ),
    Mutant(
        "a queue goes on though something else has become due",
        "asyncq/engine/fetch/schedule.py",
        "if due_s is not None:\n            self.wake_in(due_s)\n        if due_s is None or due_s > 0:",
        "if True:",
        ("tests/engine/settle/test_claim_next.py",),
    ),
    Mutant(
        "a queue is freed every so often though nobody waits",
        "asyncq/engine/settle/claim_next.py",
        "            await self._schedule.peek(self._line)\n",
        "            pass\n",
        ("tests/engine/settle/test_claim_next.py",),
    ),
    Mutant(
        "a slot that waits for a follower is free",
        "asyncq/engine/fetch/schedule.py",
        "return max(coming, self._unsettled()) if",
        "return coming if",
        ("tests/engine/settle/test_claim_next.py",),
    ),
    Mutant(
        "an end that cannot be written keeps its slot from others",
        "asyncq/engine/fetch/schedule.py",
        "return min(pause_s, LONGEST_TURN_S) if self._following else pause_s",
        "return pause_s",
        ("tests/engine/settle/test_claim_next.py::test_an_end_that_cannot_be_written_keeps_its_slot_from_nobody",),
    ),
    Mutant(
        "a worker leaves its turn on call for a moment after each job of a queue",
        "asyncq/engine/fetch/fetcher.py",
        "            if schedule.follows and self._on_call.is_in_charge:\n",
        "            if False:\n",
        ("tests/engine/settle/test_claim_next.py",),
    ),
    Mutant(
        "a worker that is full for a moment stays on call",
        "asyncq/engine/fetch/fetcher.py",
        "if schedule.follows and self._on_call.is_in_charge:",
        "if self._on_call.is_in_charge:",
        ("tests/engine/fetch/test_oncall.py",),
    ),
    Mutant(
        "a worker that runs once fetches after each job of a queue",
        "asyncq/engine/settle/completer.py",
        "if ended := [run.claim for run in runs if run.claim.queue not in go_on]:",
        "if (ended := [run.claim for run in runs if run.claim.queue not in go_on]) or runs:",
        ("tests/engine/settle/test_claim_next.py",),
    ),
    Mutant(
        "slots are opened however many versions of them are kept",
        "sql/functions/claim/open_slot.sql",
        " > 100000\n",
        " < 0\n",
        ("tests/sql/claim/test_open_slot.py",),
    ),
    Mutant(
        "versions of batches are not counted as those of slots",
        "sql/functions/claim/open_slot.sql",
        "pg_stat_get_dead_tuples('asyncq._batches'::regclass)",
        "0",
        ("tests/sql/claim/test_open_slot.py",),
    ),
    Mutant(
        "slots are opened while ids would be given once more",
        "sql/functions/claim/open_slot.sql",
        "job.id > given",
        "job.id < -given",
        ("tests/sql/claim/test_open_slot.py",),
    ),
    Mutant(
        "each slot reads all jobs",
        "sql/functions/claim/open_slot.sql",
        "job.id > given",
        "job.id > coalesce(pg_sequence_last_value('asyncq._jobs_id_seq'::regclass), 0)",
        ("tests/sql/claim/test_open_slot.py",),
    ),
    Mutant(
        "a rescue forgets a slot that is being filled",
        "sql/functions/workers/rescue_jobs.sql",
        "\n        and not exists (select from asyncq._batches as batch where batch.locked_by = slot.worker_id)",
        "",
        ("tests/store/test_slot_races.py",),
    ),
    Mutant(
        "a worker is removed that holds a batch",
        "sql/queries/workers/remove_worker.sql",
        "\n  and not exists (select from asyncq._batches where locked_by = $1)",
        "",
        ("tests/sql/claim/test_open_slot.py",),
    ),
    Mutant(
        "what a slot may have claimed that is not known any more is forgotten",
        "asyncq/engine/fetch/handoff.py",
        "if self._is_unsure or not is_known:",
        "if self._is_unsure:",
        ("tests/engine/fetch/test_handoff_races.py",),
    ),
    Mutant(
        "a claim is lost while its worker leaves its turn on call, and nobody looks",
        "asyncq/engine/fetch/fetcher.py",
        "if self._unconfirmed.is_time or (schedule.wanted",
        "if (schedule.wanted",
        ("tests/engine/fetch/test_handoff_races.py",),
    ),
    Mutant(
        "a worker that was declared dead opens slots",
        "sql/functions/claim/open_slot.sql",
        " and alive.died_at is null",
        "",
        ("tests/sql/claim/test_open_slot.py",),
    ),
    Mutant(
        "a worker that was rescued in part returns",
        "sql/queries/workers/beat.sql",
        " and died_at is null",
        "",
        ("tests/sql/workers/test_died_workers.py", "tests/engine/liveness/test_rescued_in_part.py"),
    ),
    Mutant(
        "what a batch has no room for is handed over in one",
        "sql/queries/add/fill_slot.sql",
        " and asyncq._fits_batch($2::json)",
        "",
        ("tests/sql/add/test_fill_slot.py",),
    ),
    Mutant(
        "who withholds its slots does not say so",
        "sql/functions/claim/open_slot.sql",
        "while exists (",
        "while false and exists (",
        ("tests/sql/claim/test_open_slot.py",),
    ),
    Mutant(
        "an add looks for slots that nobody opens",
        "sql/queries/add/insert_job.sql",
        " and asyncq._has_open_slot()",
        "",
        (
            "tests/store/test_add.py",
            "tests/sql/add/test_add_keyless_job.py",
        ),
    ),
    Mutant(
        "an add that no batch has room for looks for a slot",
        "sql/queries/add/insert_job.sql",
        " and asyncq._fits_batch($2::json)",
        "",
        ("tests/store/test_add.py",),
    ),
    Mutant(
        "a statement fills a slot twice",
        "sql/queries/add/fill_slot.sql",
        " and empty.ids operator(pg_catalog.=) '{}'::bigint[]",
        "",
        ("tests/sql/add/test_fill_slot.py",),
    ),
    Mutant(
        "a statement fills a slot of a worker that does not listen",
        "sql/queries/add/fill_slot.sql",
        "      and asyncq._is_listening(slot.worker_id)\n",
        "",
        ("tests/sql/add/test_fill_slot.py",),
    ),
    Mutant(
        "a statement fills several slots with one job",
        "sql/queries/add/fill_slot.sql",
        "  limit 1\n",
        "",
        ("tests/sql/add/test_fill_slot.py",),
    ),
    Mutant(
        "a statement waits for another one that fills the same slot",
        "sql/queries/add/fill_slot.sql",
        "for no key update skip locked",
        "for no key update",
        ("tests/sql/add/test_fill_slot.py",),
    ),
    Mutant(
        "a statement fills a slot for a name that is about to be collected",
        "sql/queries/add/fill_slot.sql",
        " and known.retired_in is null",
        "",
        ("tests/sql/add/test_fill_slot.py",),
    ),
    Mutant(
        "a plain insert uses a name that is about to be collected",
        "sql/queries/add/insert_job.sql",
        " and known.retired_in is null",
        "",
        ("tests/sql/add/test_add_keyless_job.py",),
    ),
    Mutant(
        "a plain add passes by the worker with an open slot",
        "sql/queries/add/insert_job.sql",
        "and not ($5::bool and",
        "and not (not $5::bool and",
        ("tests/store/test_add.py",),
    ),
    Mutant(
        "a claim that is half there is stored",
        "sql/migrations/000001_jobs.sql",
        "and locked_at is not null and lock_token is not null",
        "and locked_at is not null",
        ("tests/sql/test_job_rules.py",),
    ),
    Mutant(
        "a job that has to be judged is handed over",
        "asyncq/domain/job.py",
        " and not self.flags",
        "",
        ("tests/store/test_add.py",),
    ),
    Mutant(
        "a rescue leaves the slots of dead workers",
        "sql/functions/workers/rescue_jobs.sql",
        "where slot.worker_id = any(gone)",
        "where slot.worker_id = 0",
        ("tests/sql/add/test_fill_slot.py",),
    ),
    Mutant(
        "a worker is removed while its slot is open",
        "sql/queries/workers/remove_worker.sql",
        "and token is not null",
        "and token = 0",
        ("tests/sql/claim/test_open_slot.py",),
    ),
    Mutant(
        "a slot is opened again although its job has not arrived",
        "sql/functions/claim/open_slot.sql",
        "if not found and earlier <> acknowledged_token then",
        "if false then",
        ("tests/sql/claim/test_open_slot.py",),
    ),
    Mutant(
        "a claim of a slot whose message was lost is forgotten",
        "asyncq/engine/fetch/handoff.py",
        "if taken is not None and taken > self._acknowledged:",
        "if taken == -1:",
        ("tests/engine/fetch/test_handoff.py",),
    ),
    Mutant(
        "a withdrawal waits for an add that is stuck",
        "sql/queries/claim/close_slot.sql",
        "ids = '{}' for update nowait",
        "ids = '{}' for update",
        ("tests/engine/fetch/test_handoff_races.py", "tests/store/test_slot_races.py"),
    ),
    Mutant(
        "a poll does not ask whether the slot was filled",
        "asyncq/engine/fetch/fetcher.py",
        "if is_taken and token == handoff.token:",
        "if False:",
        ("tests/engine/fetch/test_handoff.py",),
    ),
    Mutant(
        "a message of a slot that was closed is a job",
        "asyncq/engine/fetch/handoff.py",
        "if said is None or said[0].token != self.token:",
        "if said is None:",
        ("tests/engine/fetch/test_handoff.py",),
    ),
    Mutant(
        "a worker that was declared dead opens no slot again",
        "asyncq/engine/fetch/handoff.py",
        "if self._worker_id != self._identity.worker_id:",
        "if self._worker_id is None:",
        ("tests/engine/fetch/test_handoff.py",),
    ),
    Mutant(
        "a statement of a worker waits for ever for its answer",
        "asyncq/store/database.py",
        "async with asyncio.timeout(deadline_s):",
        "async with asyncio.timeout(None):",
        ("tests/engine/liveness/test_silence.py",),
    ),
    Mutant(
        "an id that was declared dead before it was the worker's becomes its id",
        "asyncq/engine/liveness/membership.py",
        "if self._next_id not in self._dead_ids:",
        "if self._next_id:",
        ("tests/engine/liveness/test_silence.py",),
    ),
    Mutant(
        "the heartbeat's thread may fail unseen",
        "asyncq/engine/liveness/heartbeat_thread.py",
        "            self._tell(self._reactions.fail, error)\n        finally:",
        "            pass\n        finally:",
        ("tests/engine/liveness/test_heartbeat.py",),
    ),
]

Planted = Mutant | Replaced | ReplacedSql
MUTANTS: list[Planted] = [*CHANGED, *REPLACED]


def planted(mutant: Planted, folder: Path) -> Path:
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
    if trouble := mutant.trouble():
        raise SystemExit(f"{mutant.name}: {trouble}")
    mutant.plant(copy)
    return copy


def found(mutant: Planted, copy: Path) -> str | None:
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
    variables = {**os.environ, "PYTHONPATH": str(copy)}
    try:
        done = subprocess.run(command, cwd=copy, env=variables, capture_output=True, text=True, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return None
    return next(iter(re.findall(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)), None)


def chosen(words: Sequence[str]) -> Iterator[Planted]:
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
