"""Bugs of SQL that are planted by name: each replaces a small function."""

from tests.crash.planting import ReplacedSql

BATCHES = "tests/store/test_batch_races.py"
REPLACED_SQL = [
    ReplacedSql(
        "a step is stored for a worker that does not hold the job",
        "_store_step",
        """(worker int, job bigint, token bigint, name text, result text) returns boolean language sql volatile as $$
  insert into asyncq._steps (job_id, done_at, name, result)
    values (job, asyncq.now(), name, result::json) returning true;
$$""",
        ("tests/sql/settle/test_store_step.py",),
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
    ReplacedSql(
        "a partition that another fetch has just begun counts as begun",
        "_begin_partitions",
        "( ids bigint[], running int[], keys text[], cell bigint[] default null, cells text[] default null)"
        """ returns bigint[] language sql volatile as $$
  insert into asyncq._partitions (id, running, key)
    select given.id, given.running, given.key
    from unnest(ids, running, keys) as given(id, running, key) order by given.id
    on conflict do nothing;
  select ids;
$$""",
        ("tests/store/test_queue_races.py",),
    ),
    ReplacedSql(
        "who blocks the loop is noted in a job that is another worker's by now",
        "_note_block",
        """(worker int, job bigint, token bigint, error text) returns setof bigint language sql volatile as $$
  select asyncq._split_batches_of_worker(worker, array[token]);
  update asyncq._jobs set last_error = error where id = job returning id;
$$""",
        ("tests/sql/settle/test_note_block.py",),
    ),
    ReplacedSql(
        "an item that is stored and in a crontab is added by both",
        "_is_declared",
        "(item text) returns boolean language sql volatile as $$ select false $$",
        ("tests/store/test_cron_races.py",),
    ),
    ReplacedSql(
        "what a batch has no room for is batched",
        "_is_batchable",
        "(job asyncq._jobs) returns boolean language sql volatile as $$ select true $$",
        ("tests/sql/claim/test_is_batchable.py",),
    ),
    ReplacedSql(
        "the batches of a dead worker are not returned",
        "_split_batches",
        "(batches tid[]) returns setof bigint language sql volatile as $$ select 1::bigint limit 0 $$",
        (f"{BATCHES}::test_two_rescues_at_once_return_a_batch_once",),
    ),
    ReplacedSql(
        "what failed in a batch stays there",
        "_split_batches_of_worker",
        "(worker int, tokens bigint[]) returns setof bigint language sql volatile as $$ select 1::bigint limit 0 $$",
        ("tests/sql/settle/test_settle_rest.py::test_the_batches_of_its_claims_are_split_and_no_others",),
    ),
    ReplacedSql(
        "an add does not ask again who listens",
        "_wake_workers",
        """() returns void language sql volatile as $$
  select pg_catalog.pg_notify('asyncq:jobs', '')
  where asyncq._has_on_call() or not pg_catalog.pg_try_advisory_xact_lock_shared(asyncq._lock_space(), -1)
$$""",
        ("tests/sql/claim/test_wake_workers.py::test_a_worker_that_goes_on_call_while_an_add_checks_is_notified",),
    ),
    ReplacedSql(
        "a dead worker lives",
        "_is_live",
        "(worker asyncq._workers) returns boolean language sql volatile as $$ select true $$",
        ("tests/sql/workers/test_is_live.py::test_a_worker_lives_for_its_lease_after_its_last_beat",),
    ),
    ReplacedSql(
        "what a batch has no room for is handed over in one",
        "_fits_batch",
        "(payload json) returns boolean language sql volatile as $$ select true $$",
        ("tests/sql/add/test_fill_slot.py", "tests/store/test_add.py"),
    ),
    ReplacedSql(
        "an add looks for slots that nobody opens",
        "_has_open_slot",
        "() returns boolean language sql volatile as $$ select true $$",
        (
            "tests/store/test_add.py",
            "tests/sql/add/test_add_keyless_job.py",
        ),
    ),
    ReplacedSql(
        "a statement fills a slot of a worker that does not listen",
        "_is_listening",
        "(worker int) returns boolean language sql volatile as $$ select true $$",
        ("tests/sql/add/test_fill_slot.py",),
    ),
    ReplacedSql(
        "a plain add passes by the worker with an open slot",
        "_has_open_slot",
        "() returns boolean language sql volatile as $$ select false $$",
        ("tests/store/test_add.py",),
    ),
]
