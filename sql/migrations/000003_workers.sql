-- Live workers. A worker whose row is older than its lease is dead: any other worker returns its claims and removes it.
-- forbidden_flags are those of its last fetch: explain reads them.
-- cron holds the recurring items of its crontab by their identifiers, as they are stored in _cron_items; null if it adds none.
-- last_seen and lease use the real clock always (clock_timestamp), never the clock that tests can move.

create table asyncq._workers (
  id int generated always as identity constraint workers_pkey primary key,
  started_at timestamptz not null default pg_catalog.clock_timestamp(),
  last_seen timestamptz not null default pg_catalog.clock_timestamp(),
  lease interval not null,
  pid int not null,
  concurrency int not null,
  host text not null,
  tasks text[] not null,
  forbidden_flags text[],
  cron jsonb
) with (fillfactor = 70);
