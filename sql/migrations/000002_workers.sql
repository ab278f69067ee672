-- Workers, the runs of the server, and the hand-off slots of idle workers.
--
-- Times and leases use the real clock always (clock_timestamp), never the clock that tests can move.

-- Live workers, and dead ones whose claims have not all ended. A worker is dead when its lease is over, or when its
-- advisory lock was free for longer than the grace (_is_live). Then any other worker returns its claims and removes it.
--   doubted_at       when its lock was first free; its next beat clears it
--   died_at          when a rescue declared the worker dead. Its row exists until its last claim has ended, and its id is never
--                    used again.
--   locks            whether a free lock means anything: false behind a pooler, and while its heartbeat has no connection
--   forbidden_flags  those of its last fetch; explain reads them
--   queues           the queues and limits whose jobs it takes, see _takes; null: all. explain reads them and exclude
--   exclude          the queues and limits whose jobs it does not take
--   started_claims   claims that had started at its last beat, each as 'job/token'
--   stuck            jobs whose handlers were cancelled and still run
--   cron             the recurring items of its crontab by their identifiers, as they are stored in _cron_items; null if it adds none
create table asyncq._workers (
  id int generated always as identity constraint workers_pkey primary key,
  started_at timestamptz not null default pg_catalog.clock_timestamp(),
  last_seen timestamptz not null default pg_catalog.clock_timestamp(),
  doubted_at timestamptz,
  died_at timestamptz,
  lease interval not null,
  pid int not null,
  concurrency int not null,
  locks boolean not null default false,
  host text collate "C" not null,
  tasks text[] collate "C" not null,
  forbidden_flags text[] collate "C",
  queues text[] collate "C",
  exclude text[] collate "C" not null default '{}',
  started_claims text[] collate "C" not null default '{}',
  stuck bigint[] not null default '{}',
  cron jsonb
) with (
  -- Beats write no column of an index. With room on the page they need no new entries, and readers remove dead ones.
  fillfactor = 70,
  -- A few rows, written all the time and read by each worker: vacuum removes early what readers could not.
  autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_scale_factor = 0,
  autovacuum_vacuum_cost_delay = 0,
  vacuum_truncate = off
);

-- Since when this run of the server is known. Unlogged on purpose: it is empty after a crash and after the promotion of
-- a standby, when all locks are free although no worker has died.
create unlogged table asyncq._server_runs (
  only_one boolean not null default true constraint server_runs_pkey primary key,
  since timestamptz not null default pg_catalog.clock_timestamp(),
  constraint server_runs_one check (only_one)
);

-- A new schema has no worker that an outage could have cut off. Without this row the return window would begin now.
insert into asyncq._server_runs (since) values (pg_catalog.pg_postmaster_start_time());

-- The hand-off slots of idle workers. An open slot is an empty batch: an add fills it with its job and sends the job to
-- the worker in the notification. A worker has a row here for as long as it has one in _workers, so that a rescue finds
-- each job that was handed over.
--   token          of the batch; null: the slot is closed. It is filled when that batch is gone, or not empty.
--   channel        on which the worker is sent the job. It is secret: another sender could make the worker run anything.
--   task_ids       the tasks that the worker knows
--   batchable_ids  those of task_ids whose jobs a batch may hold
create table asyncq._handoff_slots (
  token bigint,
  worker_id int constraint handoff_slots_pkey primary key
    constraint handoff_slots_worker_id_fkey references asyncq._workers on delete cascade,
  channel text collate "C",
  task_ids int[],
  batchable_ids int[]
) with (
  -- As for _workers: a few rows, written all the time, and no column of an index changes.
  fillfactor = 50,
  autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_scale_factor = 0,
  autovacuum_vacuum_cost_delay = 0,
  vacuum_truncate = off
);

-- How many runs of each task ended, a row for each minute and task; after three hours for each quarter of
-- an hour, after a day for each hour.
--   span_s           60, 900, or 3600
--   completed, retried, discarded, cancelled, snoozed  how many runs ended so
--   took, waited     how many of the runs that were timed took so long, and waited so long between being due and their start:
--                    below 1, 2, 4, .. 2^18 milliseconds, and the rest. Of a batch at most 8 runs are timed
--   took_s, waited_s the sums of those times
create table asyncq._stats (
  at timestamptz not null,
  took_s float8 not null,
  waited_s float8 not null,
  task_id int not null,
  span_s int not null,
  completed int not null,
  retried int not null,
  discarded int not null,
  cancelled int not null,
  snoozed int not null,
  took int[] not null,
  waited int[] not null,
  constraint stats_pkey primary key (at, task_id, span_s)
) with (
  -- Workers write the rows of this minute, and no column of an index.
  fillfactor = 70,
  autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_scale_factor = 0.05
);

-- How many jobs there were, every ten seconds; after a day every minute. The eldest live worker writes a row.
--   oldest_s  how long the oldest due job had waited; null: none was due
--   workers, slots, busy  live workers, how many jobs they can run at once, and how many they ran
create table asyncq._depths (
  at timestamptz constraint depths_pkey primary key,
  oldest_s float8,
  scheduled bigint not null,
  available bigint not null,
  active bigint not null,
  retryable bigint not null,
  discarded bigint not null,
  workers int not null,
  slots int not null,
  busy int not null
);
