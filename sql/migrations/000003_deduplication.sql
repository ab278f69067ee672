-- Tables of deduplicated adds: key locks, ended jobs that are kept, and requests that may be made again.

-- The lock of each key of a deduplicated add: adds with that key take it one after the other. Logged: a prepared
-- transaction outlives a crash of the server, and the next add has to find the key lock that it took.
create table asyncq._key_locks (
  key bigint constraint key_locks_pkey primary key,
  used_at timestamptz not null default pg_catalog.clock_timestamp()
) with (
  -- Each add of a known key writes its row, and no column of an index.
  fillfactor = 70,
  -- There may be millions, of which the same few are written again and again: a fiftieth, not the usual fifth. With the
  -- usual pauses: no statement walks over dead rows.
  autovacuum_vacuum_threshold = 5000,
  autovacuum_vacuum_scale_factor = 0.02
);

-- Jobs that have ended: for as long as an add asked to keep them (a unique policy, an idempotency key), and as their
-- history is kept. A row is kept for the longer of both, and for a minute if a client waited for the end of the job.
-- The columns after unique_key are its history, null without. An awaited job has attempts, error and result of them:
--   started_at  when its last run began; null if that is not known, or it never ran
--   worker_id   the worker of its last run
--   attempts    the attempts that were made, with the last one
--   error       its last error; if it completed, the reason why its result is not stored
--   payload     null: it is not kept, or was blanked
--   result      the return value of its handler; null: there was none, or it was blanked
create table asyncq._ended_jobs (
  id bigint constraint ended_jobs_pkey primary key,
  created_at timestamptz not null,
  ended_at timestamptz not null,
  keep_until timestamptz not null,
  task_id int not null,
  state text collate "C" not null constraint ended_jobs_state_check check (state in ('completed', 'cancelled', 'discarded')),
  unique_key bytea,
  run_at timestamptz,
  started_at timestamptz,
  worker_id int,
  attempts smallint,
  max_attempts smallint,
  priority smallint,
  queue text collate "C",
  error text collate "C",
  payload json,
  result json,
  meta jsonb
) with (
  -- A prune deletes the entries at the head of ended_jobs_keep_until, over which the next prune walks.
  autovacuum_vacuum_threshold = 5000,
  autovacuum_vacuum_scale_factor = 0.02
);

-- add_job with a unique policy that looks at ended jobs.
create index ended_jobs_unique_key on asyncq._ended_jobs (unique_key) where unique_key is not null;

-- prune: rows that no longer have to be kept.
create index ended_jobs_keep_until on asyncq._ended_jobs (keep_until);

-- Pages of the history of one state. Most jobs complete: their rows have no entry.
create index ended_jobs_state on asyncq._ended_jobs (state, id) where state <> 'completed';

-- Adds with an idempotency key: the job that the first add made or found, and the SHA-256 of its task and payload.
create table asyncq._requests (
  keep_until timestamptz not null,
  job_id bigint not null,
  key text collate "C"
    constraint requests_pkey primary key
    constraint requests_key_check check (length(key) between 1 and 200),
  digest bytea not null
) with (
  -- As for _ended_jobs.
  autovacuum_vacuum_threshold = 5000,
  autovacuum_vacuum_scale_factor = 0.02
);

-- prune: rows that no longer have to be kept.
create index requests_keep_until on asyncq._requests (keep_until);
