"""Bugs that are planted by name: each replaces a function, a method or a constant, and survives changes of the text.

Prefer these to the bugs of mutants.py, which change a piece of text. A condition inside a long statement needs one.
"""

from tests.crash.planting import Replaced, ReplacedSql

BUFFER = ("tests/engine/fetch/test_buffer.py",)
GATHERING = ("tests/engine/settle/test_gathering.py",)
REPLACED = [
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
        "asyncq.engine.fetch.fetch_size.FetchSize.took",
        "def wrong(self, jobs, took_s, *, of_queues): right(self, 0, took_s, of_queues=True)",
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
        "async def wrong(self):\n    self._turn = 1\n    await asyncio.sleep(0)\n"
        "    self._held_s, self._paused_at = 0.0, perf_counter()",
        BUFFER,
    ),
    Replaced(
        "each end of a handler that holds the loop is a write of its own",
        "asyncq.engine.settle.completer.Completer._has_time",
        "def wrong(self):\n    is_held, self._is_held = self._is_held, lambda: False\n    try:\n"
        "        return right(self)\n    finally:\n        self._is_held = is_held",
        GATHERING,
    ),
    Replaced(
        "the end of a handler that held the loop for very long waits for the next one",
        "asyncq.engine.settle.completer.MANY_OF_HELD",
        "wrong = 0",
        GATHERING,
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
    ReplacedSql(
        "a worker whose lock is free has no grace",
        "_grace",
        "() returns interval language sql immutable parallel safe as $$ select interval '0' $$",
        ("tests/sql/workers/test_is_live.py",),
    ),
    ReplacedSql(
        "workers that could not reach the server are dead when it returns",
        "_has_just_returned",
        "() returns boolean language sql volatile as $$ select false $$",
        ("tests/sql/workers/test_is_live.py",),
    ),
    ReplacedSql(
        "the claims of a lost fetch are not given back",
        "_return_lost",
        "(worker int, tokens bigint[]) returns setof bigint language sql volatile as $$ select 1::bigint limit 0 $$",
        ("tests/sql/settle/test_return_lost.py",),
    ),
    ReplacedSql(
        "a key lock that was taken before is not written",
        "_lock_keys",
        """(keys text[]) returns bigint language sql volatile as $$
  insert into asyncq._key_locks (key)
    select distinct pg_catalog.hashtextextended(given, 0) from unnest(keys) as given order by 1
    on conflict do nothing;
  select count(distinct given) from unnest(keys) as given;
$$""",
        ("tests/store/test_key_races.py",),
    ),
]
