-- Live workers. A worker is dead when its lease is over, or when its advisory lock was free for longer than the grace
-- (_is_live): any other worker returns its claims and removes it.
--   locks       whether a free lock says anything: false behind a pooler, and while its heartbeat has no connection
--   doubted_at  when its lock was first seen free; its next beat clears it
--   named       claims that have started, each as 'job/token': those that ran at its last beat
--   stuck       jobs whose handlers did not end when they were cancelled, and run still
-- forbidden_flags are those of its last fetch: explain reads them.
-- cron holds the recurring items of its crontab by their identifiers, as they are stored in _cron_items; null if it adds none.
-- Times and lease use the real clock always (clock_timestamp), never the clock that tests can move.

create table asyncq._workers (
  id int generated always as identity constraint workers_pkey primary key,
  started_at timestamptz not null default pg_catalog.clock_timestamp(),
  last_seen timestamptz not null default pg_catalog.clock_timestamp(),
  doubted_at timestamptz,
  lease interval not null,
  pid int not null,
  concurrency int not null,
  locks boolean not null default false,
  host text collate "C" not null,
  tasks text[] collate "C" not null,
  forbidden_flags text[] collate "C",
  named text[] collate "C" not null default '{}',
  stuck bigint[] not null default '{}',
  cron jsonb
) with (
  -- Beats write no column of an index: with room on the page they need no new entries, and readers tidy up after them.
  fillfactor = 70,
  -- A few rows, written all the time and read by each worker: what cannot be tidied up that way must not add up.
  autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_scale_factor = 0,
  autovacuum_vacuum_cost_delay = 0,
  vacuum_truncate = off
);

-- Since when this run of the server is known. It is unlogged for a reason: after a crash and after the promotion of a standby
-- it is empty, and all locks are gone although nobody has died.
create unlogged table asyncq._server_runs (
  only_one boolean not null default true constraint server_runs_pkey primary key,
  since timestamptz not null default pg_catalog.clock_timestamp(),
  constraint server_runs_one check (only_one)
);
