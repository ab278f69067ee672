-- Tables of jobs that wait for other jobs.

-- place: that of the job among those whose results the waiter takes; null if it takes none.
-- The edges: job `waiter`, which is pending, waits for the end of job `job_id`. They are inserted with their waiter,
-- and never updated. They are locked only to be deleted, apart from one edge that a look locks: see _look. No foreign
-- key, since it would lock the rows of jobs.
create table asyncq._waits (
  waiter bigint not null,
  job_id bigint not null,
  place int,
  constraint waits_pkey primary key (waiter, job_id)
) with (
  -- Each edge dies with a job. An end reads the other edges of its waiter, and passes dead ones.
  autovacuum_vacuum_threshold = 5000,
  autovacuum_vacuum_scale_factor = 0.02
);

-- _cut_waits: the edges that lead to a job.
create index waits_job_id on asyncq._waits (job_id);

-- Waiters to look at, because a job has ended. The transaction of the end inserts the row, and a look after its commit
-- deletes it. If a worker dies in between, any other worker finds the row. So the table is empty at rest.
--   job_id  the job that ended; if its edge is still there, the look deletes it
--   state   how it ended; failed: it is discarded, but has its row and can be retried
--   at      when it ended, by the real clock
create table asyncq._closings (
  id bigint generated always as identity constraint closings_pkey primary key,
  waiter bigint not null,
  job_id bigint not null,
  at timestamptz not null default pg_catalog.clock_timestamp(),
  state text collate "C" not null constraint closings_state_check check (state in ('completed', 'cancelled', 'discarded', 'failed'))
) with (
  -- A few rows that die at once. Each look walks over the dead ones.
  autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_scale_factor = 0,
  autovacuum_vacuum_insert_threshold = -1,
  autovacuum_vacuum_cost_delay = 0,
  vacuum_truncate = off
);

-- _look: all closings of a waiter are judged together.
create index closings_waiter on asyncq._closings (waiter);

-- Results of jobs for a pending job that takes them: its payload is made of them when it is released. The end of a job
-- inserts its result, so none is lost if the job itself is not kept. The release of the waiter, or its end, deletes
-- them. A result that is written beside the end of its waiter stays, until _prune finds that nobody waits for it.
--   size  of the result as text, in bytes
create table asyncq._inputs (
  waiter bigint not null,
  place int not null,
  size int not null,
  result json not null,
  constraint inputs_pkey primary key (waiter, place)
) with (
  autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_scale_factor = 0.02
);
