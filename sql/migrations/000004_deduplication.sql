-- The gate of every deduplicated add, and ended jobs that something asked to keep.

create table asyncq._gate (
  key bigint constraint gate_pkey primary key,
  used_at timestamptz not null default pg_catalog.clock_timestamp()
) with (fillfactor = 70);

create table asyncq._ended_jobs (
  id bigint constraint ended_jobs_pkey primary key,
  created_at timestamptz not null,
  ended_at timestamptz not null,
  keep_until timestamptz not null,
  task_id int not null,
  state text not null constraint ended_jobs_state_check check (state in ('completed', 'cancelled', 'discarded')),
  queue text collate "C",
  key text,
  meta jsonb
);

-- prune: what no longer has to be kept.
create index ended_jobs_keep_until on asyncq._ended_jobs (keep_until);
