"""Bugs of Python that are planted by name: each replaces a function, a method or a constant.

Such a bug survives changes of the text. Prefer it to a bug of changed.py.
"""

from tests.crash.planting import Replaced

BUFFER = ("tests/engine/fetch/test_buffer.py",)
LEASES = "tests/engine/liveness/test_leases.py"
REPLACED = [
    Replaced(
        "each step reads the steps of earlier runs again",
        "asyncq.engine.run.steps.Steps._read",
        "async def wrong(self):\n    self._earlier = None\n    return await right(self)",
        ("tests/engine/run/test_steps_beside.py",),
    ),
    Replaced(
        "steps are read only after an attempt or an interruption",
        "asyncq.engine.run.steps.Steps._read",
        "async def wrong(self):\n    ran = self._claim.attempts or self._claim.interruptions\n"
        "    return await right(self) if ran else {}",
        ("tests/engine/run/test_steps.py",),
    ),
    Replaced(
        "a running worker does not see that the schema needs a newer release",
        "asyncq.engine.liveness.heartbeat_thread.HeartbeatThread._check_release",
        "async def wrong(self): pass",
        ("tests/engine/liveness/test_outgrown.py",),
    ),
    Replaced(
        "a migration that stops older workers does not tell them",
        "asyncq.store.migrate.cancel_channel",
        "def wrong(schema): return 'nobody'",
        ("tests/engine/liveness/test_outgrown.py",),
    ),
    Replaced(
        "only the worker that wrote a retry knows of it",
        "asyncq.engine.settle.wake_ups.LONGEST_POLL_S",
        "wrong = -1.0",
        ("tests/engine/fetch/test_oncall.py",),
    ),
    Replaced(
        "a moment before the year 2000 is read as one in the far future",
        "asyncq.domain.moment.read_moment",
        "def wrong(sent): return int.from_bytes(sent, 'big')",
        ("tests/domain/test_moment.py",),
    ),
    Replaced(
        "a fetch takes as many jobs as it may, however long that takes",
        "asyncq.engine.fetch.schedule.MOST_OF_PARTITIONS",
        "wrong = 500",
        ("tests/engine/fetch/test_fetch_size.py",),
    ),
    Replaced(
        "a worker that loses its connection as it leaves stays in the list",
        "asyncq.engine.liveness.membership.LEAVE_TRIES",
        "wrong = 1",
        ("tests/engine/liveness/test_heartbeat.py",),
    ),
    Replaced(
        "each worker reads all jobs as it starts",
        "asyncq.engine.maintenance.rounds.Rounds.__init__",
        "def wrong(self, *args, **more):\n    right(self, *args, **more)\n    self._rounds = 0",
        ("tests/engine/maintenance/test_rounds.py",),
    ),
    Replaced(
        "handlers that never wait keep all else from running", "asyncq.engine.fetch.buffer.BREATH", "wrong = -1", BUFFER
    ),
    Replaced(
        "handlers hold the loop for as long as there are slots",
        "asyncq.engine.fetch.buffer.Buffer.pop",
        "def wrong(self):\n    if not self._claims or self._turn == BREATH:\n        return None\n"
        "    self._turn += 1\n    return self._first()",
        BUFFER,
    ),
    Replaced(
        "others have the loop for a single round",
        "asyncq.engine.fetch.buffer.Buffer._let_others_run",
        "async def wrong(self):\n    self._turn = 1\n    await asyncio.sleep(0)\n    self._held_s = 0.0",
        BUFFER,
    ),
    Replaced(
        "a fetch whose answer was lost is forgotten",
        "asyncq.engine.fetch.unconfirmed.UnconfirmedFetches.note",
        "def wrong(self, worker_id, token): pass",
        ("tests/engine/fetch/test_fetcher.py::test_claims_lost_by_the_last_fetch_are_returned_at_the_stop",),
    ),
    Replaced(
        "a settlement that could not be written is not tried again",
        "asyncq.engine.settle.completer.Completer._back_off",
        "async def wrong(self, error, tries):\n    self._outbox.writing_well.clear()\n    self._outbox.writing.clear()",
        ("tests/engine/settle/test_completer.py::test_a_failed_write_is_kept_and_tried_again",),
    ),
    Replaced(
        "a settlement that is put off forgets that it may be committed",
        "asyncq.engine.settle.outbox.Outbox.put_off",
        "def wrong(self, held, *, uncertain): right(self, held, uncertain=False)",
        ("tests/engine/settle/test_told_and_committed.py",),
    ),
    Replaced(
        "a rolled-back job of a dead worker is reported as completed",
        "asyncq.engine.settle.completer.is_known",
        "async def wrong(line, worker_id): return True",
        ("tests/engine/settle/test_told_and_committed.py",),
    ),
    Replaced(
        "a question that fails makes a settlement doubtful",
        "asyncq.engine.settle.claim_next.suppress",
        "def wrong(error): return right(KeyError)",
        ("tests/engine/settle/test_claim_next.py",),
    ),
    Replaced(
        "claims of a late answer start although they were rescued",
        "asyncq.engine.fetch.fetcher.Fetcher._still_held",
        "async def wrong(self, worker_id, claims): return claims",
        ("tests/engine/liveness/test_rescued_in_part.py",),
    ),
    Replaced(
        "an add goes on to fill slots that nobody opens any more",
        "asyncq.store.add.HandoffHints.next_step",
        "def wrong(self, task):\n    step = right(self, task)\n    if step == 'fill':\n        self._filled.add(task)\n"
        "    return step",
        ("tests/store/test_add.py",),
    ),
    Replaced(
        "adds pass by a worker that has a slot open",
        "asyncq.store.add.HandoffHints.filled",
        "def wrong(self, task): pass",
        ("tests/store/test_add.py",),
    ),
    Replaced(
        "a job that was handed to a stalled process starts after its rescue",
        "asyncq.engine.fetch.inbox.Inbox.take_over",
        "def wrong(self, worker_id, claim, made_at): self.receive(worker_id, [claim])",
        ("tests/engine/liveness/test_leases.py",),
    ),
    Replaced(
        "a worker that is busy opens a slot",
        "asyncq.engine.fetch.schedule.Schedule.has_nothing_to_do",
        "wrong = property(lambda self: not self._inbox.is_closed and self.is_idle and self.may_fetch())",
        ("tests/engine/fetch/test_handoff.py",),
    ),
    Replaced(
        "a delay that a subclass sets is not checked",
        "asyncq.engine.run.verdict.seconds",
        "def wrong(delay): return delay",
        ("tests/engine/run/test_executor.py::test_a_delay_that_a_subclass_sets_may_be_a_timedelta",),
    ),
    Replaced(
        "the lease goes by a clock that stands still while the machine sleeps",
        "asyncq.engine.liveness.start_gate.StartGate.may_start_now",
        "def wrong(self, claim):\n    from time import monotonic\n\n    is_suspect = claim.last_error is not None or"
        " claim.attempts + 1 >= claim.max_attempts\n    return not is_suspect and monotonic() < self._lease.ends_at",
        ("tests/engine/liveness/test_sleep.py",),
    ),
    Replaced(
        "a refused heartbeat is treated as a silent connection",
        "asyncq.engine.liveness.heartbeat_thread.is_answer",
        "def wrong(error): return False",
        ("tests/engine/liveness/test_refusals.py::test_a_missing_privilege_interrupts_no_handler",),
    ),
    Replaced(
        "a connection that is lost under a handler costs an attempt",
        "asyncq.store.transactions.is_closed",
        "def wrong(connection): return False",
        ("tests/engine/run/test_transactional_ends.py",),
    ),
    Replaced(
        "a due time that becomes known during a poll is forgotten",
        "asyncq.engine.fetch.fetcher.Fetcher._sees_nothing",
        """async def wrong(self):
    if sees_nothing := await right(self):
        self._schedule.poll_later()
    return sees_nothing""",
        ("tests/engine/fetch/test_fetcher.py",),
    ),
    Replaced(
        "a suspect that is cancelled while it waits starts",
        "asyncq.engine.liveness.start_gate.StartGate.cancel",
        """def wrong(self, jobs):
    found = right(self, jobs)
    self._cancelled.clear()
    return found""",
        ("tests/engine/liveness/test_start_gate.py",),
    ),
    Replaced(
        "a worker that ends takes the signals of the others with it",
        "asyncq.engine.signals.signals",
        """@contextmanager
def wrong(ask):
    with right(ask):
        yield
        _restore()""",
        ("tests/engine/test_signals.py",),
    ),
    Replaced(
        "a slot that is cancelled while others run keeps its wake-up",
        "asyncq.engine.fetch.buffer.Buffer._wake_one",
        """def wrong(self):
    from sys import exc_info

    return exc_info()[0] is not asyncio.CancelledError and right(self)""",
        ("tests/engine/fetch/test_buffer.py",),
    ),
    Replaced(
        "what handlers held before a pause delays the next job",
        "asyncq.engine.fetch.buffer.Buffer.put",
        """def wrong(self, claims):
    held_s = self._held_s
    right(self, claims)
    self._held_s = held_s""",
        ("tests/engine/fetch/test_buffer.py",),
    ),
    Replaced(
        "a wake-up is cleared after the last look",
        "asyncq.engine.fetch.fetcher.Fetcher._set_alarm",
        """async def wrong(self, scan):
    await right(self, scan)
    self._schedule.is_woken = False""",
        ("tests/engine/fetch/test_fetcher.py",),
    ),
    Replaced(
        "each settlement that is held up puts off all others",
        "asyncq.engine.settle.outbox.Outbox.put_off",
        """def wrong(self, held, *, uncertain):
    right(self, held, uncertain=uncertain)
    self._later_at = time.perf_counter() + LATER_S""",
        (
            "tests/engine/settle/test_completer.py::test_a_row_that_is_free_again_is_settled_however_many_others_are_locked",
        ),
    ),
    Replaced(
        "lost claims that somebody holds are forgotten",
        "asyncq.engine.fetch.unconfirmed.still_claimed",
        "async def wrong(line, worker_id, tokens): return []",
        ("tests/engine/fetch/test_unconfirmed.py::test_claims_that_are_locked_are_not_forgotten",),
    ),
    Replaced(
        "each good end is written by itself, however many there are",
        "asyncq.engine.settle.completer.Completer._has_time",
        "def wrong(self): return False",
        ("tests/engine/settle/test_gathering.py::test_enough_ends_are_written_together",),
    ),
    Replaced(
        "a queue waits for other ends to be gathered",
        "asyncq.engine.settle.completer.Completer.hand_over",
        """def wrong(self, run, outcome):
    if type(outcome) is not Completed or not self._outbox.well:
        right(self, run, outcome)
    else:
        run.ended_at = time.perf_counter()
        self._outbox.put_well(run)""",
        ("tests/engine/settle/test_gathering.py::test_the_end_of_a_queues_job_does_not_wait_for_others",),
    ),
    Replaced(
        "the first end of a queue's job is kept for others",
        "asyncq.engine.settle.completer.Completer._has_time",
        "def wrong(self): return not self._closing",
        ("tests/engine/settle/test_gathering.py::test_a_queues_job_that_ended_first_does_not_wait_for_others",),
    ),
    Replaced(
        "a stop waits until enough ends are gathered",
        "asyncq.engine.settle.completer.Completer._has_time",
        """def wrong(self):
    closing, self._closing = self._closing, False
    has_time = right(self)
    self._closing = closing
    return has_time""",
        (
            "tests/engine/settle/test_gathering.py::test_results_that_arrive_during_a_write_at_the_stop_do_not_wait_for_others",
        ),
    ),
    Replaced(
        "a stored recurring item is due since a worker has heard of it",
        "asyncq.engine.cron.timetable.Timetable._before",
        "def wrong(self, known): return None",
        ("tests/engine/cron/test_stored_items.py",),
    ),
    Replaced(
        "a worker in doubt goes on",
        "asyncq.engine.liveness.lease_state.LeaseState._doubt_over",
        "def wrong(self): pass",
        (f"{LEASES}::test_a_worker_that_is_cut_off_cancels_its_jobs_before_another_one_runs_them",),
    ),
    Replaced(
        "a lost lock is held against a worker that has other connections",
        "asyncq.engine.liveness.fallback_heartbeat.FallbackHeartbeat._beat",
        "async def wrong(self, line): return False",
        (f"{LEASES}::test_a_worker_that_lost_the_connection_of_its_lock_beats_over_another_one",),
    ),
    Replaced(
        "suspects run unnamed",
        "asyncq.engine.liveness.start_gate.has_to_be_named",
        "def wrong(claim): return False",
        (f"{LEASES}::test_a_job_that_may_have_run_with_a_dead_worker_is_named_before_it_runs",),
    ),
    Replaced(
        "a job is due by the clock of its worker",
        "asyncq.store.database.ReconnectingConnection.fetch",
        """async def wrong(self, name, *args):
    from datetime import datetime

    if name == 'fetch_jobs':
        args = (*args[:8], datetime.now().astimezone(), *args[9:])
    return await right(self, name, *args)""",
        ("tests/store/test_jobs.py::test_jobs_are_due_by_the_clock_of_the_schema_not_by_that_of_this_process",),
    ),
    Replaced(
        "recurring items go by the clock of their worker",
        "asyncq.store.crontabs.look",
        """async def wrong(line):
    now, items = await right(line)
    return datetime.now(now.tzinfo), items""",
        ("tests/store/test_crontabs.py::test_the_time_of_recurring_items_is_that_of_the_schema",),
    ),
    Replaced(
        "a worker that is cut off goes on beyond its lease",
        "asyncq.engine.liveness.lease_state.LeaseState._give_up",
        """def wrong(self, reason):
    if reason != 'its lease is about to end':
        right(self, reason)""",
        (f"{LEASES}::test_a_worker_that_reaches_no_server_cancels_its_jobs_before_its_lease_is_over",),
    ),
    Replaced(
        "a lease is counted from the answer to a sign of life",
        "asyncq.engine.liveness.lease_state.LeaseState.proven",
        "def wrong(self, sent_at, *, holds): return right(self, now_s(), holds=holds)",
        ("tests/engine/liveness/test_heartbeat.py",),
    ),
    Replaced(
        "a transaction is committed although its claim is gone",
        "asyncq.store.transactions.complete_claim",
        """async def wrong(*args):
    ending = await right(*args)
    return 'completed' if ending == 'lost' else ending""",
        ("tests/engine/run/test_transactional.py",),
    ),
    Replaced(
        "a process that was stopped accuses a handler",
        "asyncq.engine.liveness.loop_watchdog.LoopWatchdog._look",
        "def wrong(self, noted, due_at): right(self, noted, float('inf'))",
        ("tests/engine/liveness/test_loop_watchdog.py",),
    ),
    Replaced(
        "a stuck thread keeps the place of the next one",
        "asyncq.engine.run.stuck.Stuck._look",
        """def wrong(self, run, due_at):
    threads, self._threads = self._threads, CapacityLimiter(1)
    right(self, run, due_at)
    self._threads = threads""",
        ("tests/engine/run/test_stuck.py",),
    ),
    Replaced(
        "a handler that had no turn to end counts as stuck",
        "asyncq.engine.run.stuck.Stuck._look",
        "def wrong(self, run, due_at): right(self, run, float('inf'))",
        ("tests/engine/run/test_stuck.py",),
    ),
    Replaced(
        "a stored item that was changed is known as it was",
        "asyncq.engine.cron.timetable.Timetable.store",
        "def wrong(self, stored): return right(self, [self._stored.get(one.item.identifier, one) for one in stored])",
        ("tests/engine/cron/test_stored_items.py",),
    ),
    Replaced(
        "all jobs of a batch are returned as created when they are due",
        "asyncq.store.claim._read_batch",
        "def wrong(*row): return right(*row[:7], None, *row[8:])",
        ("tests/store/test_fetched_claims.py",),
    ),
    Replaced(
        "a completion splits the batch before its own connection is asked",
        "asyncq.store.transactions.complete_in",
        """async def wrong(*args):
    await args[-1]()
    return await right(*args)""",
        ("tests/engine/run/test_own_transactions_in_batches.py",),
    ),
    Replaced(
        "a snapshot that is older than the row of a job is taken for a lost claim",
        "asyncq.store.transactions._lock_split",
        """async def wrong(*args):
    try:
        return await right(*args)
    except TransactionUnusable:
        return await lock_claim(*args[:4])""",
        ("tests/engine/run/test_own_transactions_in_batches.py",),
    ),
    Replaced(
        "jobs that their handlers may complete are batched",
        "asyncq.engine.base.identity.Identity.learn",
        """def wrong(self, task_ids):
    right(self, task_ids)
    self.unbatched = []""",
        ("tests/engine/fetch/test_batches.py",),
    ),
    Replaced(
        "a job that becomes due behind a fetch is slept over",
        "asyncq.engine.fetch.fetcher.next_due_s",
        """async def wrong(line, since, after):
    place = after.priority, after.run_at, after.id
    rows = await line.fetch("next_due", 2 * (loop_time() - since), None, *place, None, None)
    return rows[0]["delay_s"]""",
        ("tests/engine/fetch/test_fetcher.py::test_a_job_that_becomes_due_while_the_query_is_in_flight_is_not_missed",),
    ),
    Replaced(
        "a later retry puts off an earlier one",
        "asyncq.engine.fetch.schedule.Schedule.wake_in",
        """def wrong(self, delay_s):
    self._look_at = float('inf')
    right(self, delay_s)""",
        ("tests/engine/fetch/test_fetcher.py::test_a_sleeping_fetcher_wakes_at_the_earliest_of_its_times",),
    ),
    Replaced(
        "a plain add loses what goes with the job",
        "asyncq.domain.job.JobSpec.is_plain",
        "wrong = property(lambda self: right.fget(msgspec.structs.replace(self, meta=None)))",
        ("tests/house/test_job_fields.py",),
    ),
    Replaced(
        "a worker that stops is gone before it has handed over",
        "asyncq.engine.fetch.oncall.OnCall.stop",
        "async def wrong(self): pass",
        (
            "tests/engine/fetch/test_oncall.py::test_a_worker_that_stops_hands_over_before_its_handlers_have_ended",
            "tests/engine/fetch/test_oncall.py::test_a_worker_that_stops_hands_over_before_it_ends",
            "tests/engine/fetch/test_oncall.py::test_a_worker_that_is_put_on_call_while_it_stops_hands_over",
        ),
    ),
    Replaced(
        "a worker that cannot fetch hears for all others",
        "asyncq.engine.fetch.fetcher.Fetcher._back_off",
        """async def wrong(self, error, failures):
    self._on_call.no_room = lambda: None
    await right(self, error, failures)
    del self._on_call.no_room""",
        ("tests/engine/fetch/test_oncall.py::test_a_worker_that_cannot_fetch_hands_over",),
    ),
    Replaced(
        "a settlement that was held up stays beside that of a newer claim",
        "asyncq.engine.settle.outbox.Outbox._lose_older",
        """def wrong(self, job_id):
    held, self._held_back = self._held_back, {}
    right(self, job_id)
    self._held_back = held""",
        ("tests/engine/settle/test_completer.py::test_a_delayed_settlement_is_replaced_by_that_of_a_newer_claim",),
    ),
    Replaced(
        "a suspect starts on a beat that came too late",
        "asyncq.engine.liveness.start_gate.StartGate._is_named",
        """async def wrong(self, name):
    asked = self._asked[name] = asyncio.get_running_loop().create_future()
    self._beat_now()
    try:
        return await asked and name not in self._cancelled
    finally:
        del self._asked[name]""",
        ("tests/engine/liveness/test_start_gate.py",),
    ),
    Replaced(
        "a second message makes the canceller forget the first",
        "asyncq.engine.fetch.inbox.Inbox.cancel",
        """def wrong(self, jobs):
    self._cancelled = set()
    right(self, jobs)""",
        ("tests/engine/test_canceller.py::test_none_of_several_messages_before_the_answer_of_the_fetch_is_lost",),
    ),
    Replaced(
        "a queue goes on for ever while its worker knows of nobody who waits",
        "asyncq.engine.fetch.schedule.Schedule._may_go_on",
        "wrong = property(lambda self: self.is_idle)",
        ("tests/engine/settle/test_claim_next.py",),
    ),
    Replaced(
        "a queue goes on though something else has become due",
        "asyncq.engine.fetch.schedule.next_due_s",
        "async def wrong(line, since, after): return None",
        ("tests/engine/settle/test_claim_next.py",),
    ),
    Replaced(
        "a queue is freed every so often though nobody waits",
        "asyncq.engine.fetch.schedule.Schedule.peek",
        "async def wrong(self, line): pass",
        ("tests/engine/settle/test_claim_next.py",),
    ),
    Replaced(
        "a slot that waits for a follower is free",
        "asyncq.engine.fetch.schedule.Schedule._following",
        "wrong = property(lambda self: self._inbox.coming)",
        ("tests/engine/settle/test_claim_next.py",),
    ),
    Replaced(
        "an end that cannot be written keeps its slot from others",
        "asyncq.engine.fetch.schedule.Schedule.pause_s",
        """def wrong(self, wanted):
    has_slot = wanted and self.may_fetch()
    return max(self._look_at - loop_time(), 0.0) if has_slot else self._options.poll_s""",
        ("tests/engine/settle/test_claim_next.py::test_an_end_that_cannot_be_written_blocks_its_slot_for_nobody",),
    ),
    Replaced(
        "a worker leaves its turn on call for a moment after each job of a queue",
        "asyncq.engine.fetch.oncall.OnCall.is_in_charge",
        "wrong = property(lambda self: False)",
        ("tests/engine/settle/test_claim_next.py",),
    ),
    Replaced(
        "a worker that is full for a moment stays on call",
        "asyncq.engine.fetch.fetcher.Fetcher._rest",
        """async def wrong(self, wanted):
    self._schedule.follows = True
    await right(self, wanted)""",
        ("tests/engine/fetch/test_oncall.py",),
    ),
    Replaced(
        "a worker that runs once fetches after each job of a queue",
        "asyncq.engine.settle.completer.Completer._conclude_well",
        """def wrong(self, runs, written, go_on):
    right(self, runs, written, go_on)
    self._settled([])""",
        ("tests/engine/settle/test_claim_next.py",),
    ),
    Replaced(
        "what a slot may have claimed that is not known any more is forgotten",
        "asyncq.engine.fetch.handoff.Handoff._give_up",
        """def wrong(self):
    if self._is_unsure:
        right(self)""",
        ("tests/engine/fetch/test_handoff_races.py",),
    ),
    Replaced(
        "a claim is lost while its worker leaves its turn on call, and nobody looks",
        "asyncq.engine.fetch.fetcher.Fetcher._rest",
        """async def wrong(self, wanted):
    from types import SimpleNamespace

    unconfirmed, self._unconfirmed = self._unconfirmed, SimpleNamespace(is_time=False)
    try:
        await right(self, wanted)
    finally:
        self._unconfirmed = unconfirmed""",
        ("tests/engine/fetch/test_handoff_races.py",),
    ),
    Replaced(
        "a job that has to be judged is handed over",
        "asyncq.domain.job.JobSpec.is_plain",
        "wrong = property(lambda self: right.fget(msgspec.structs.replace(self, flags=())))",
        ("tests/store/test_add.py",),
    ),
    Replaced(
        "a claim of a slot whose message was lost is forgotten",
        "asyncq.engine.fetch.handoff.close_slot",
        "async def wrong(*args): return (await right(*args))[0], None",
        ("tests/engine/fetch/test_handoff.py",),
    ),
    Replaced(
        "a poll does not ask whether the slot was filled",
        "asyncq.engine.fetch.handoff.Handoff.missed",
        "def wrong(self): pass",
        ("tests/engine/fetch/test_handoff.py",),
    ),
    Replaced(
        "a message of a slot that was closed is a job",
        "asyncq.engine.fetch.handoff.Handoff.heard",
        """def wrong(self, text):
    self.token = handed_over(text)[0].token
    right(self, text)""",
        ("tests/engine/fetch/test_handoff.py",),
    ),
    Replaced(
        "a worker that was declared dead opens no slot again",
        "asyncq.engine.fetch.handoff.Handoff.consider",
        """def wrong(self):
    self._worker_id = self._identity.worker_id
    right(self)""",
        ("tests/engine/fetch/test_handoff.py",),
    ),
    Replaced(
        "a statement of a worker waits for ever for its answer",
        "asyncq.store.database.ReconnectingConnection.fetch",
        """async def wrong(self, name, *args):
    self._answer_s = None
    return await right(self, name, *args)""",
        ("tests/engine/liveness/test_silence.py",),
    ),
    Replaced(
        "an id that was declared dead before it was the worker's becomes its id",
        "asyncq.engine.liveness.membership.Membership.lost",
        """def wrong(self, worker_id):
    right(self, worker_id)
    self._dead_ids = {0}""",
        ("tests/engine/liveness/test_silence.py",),
    ),
    Replaced(
        "the heartbeat's thread may fail unseen",
        "asyncq.engine.liveness.heartbeat_thread.HeartbeatThread._call_home",
        """def wrong(self, function, *args):
    if function != self._callbacks.fail:
        right(self, function, *args)""",
        ("tests/engine/liveness/test_heartbeat.py",),
    ),
]
