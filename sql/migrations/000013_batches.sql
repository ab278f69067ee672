-- What a fetch takes by the hundred is one row here, and none in _jobs: to write a claim in each job's row took most of what a
-- drain costs the server. A batch holds jobs that were only added and wait for nothing: no key, policy, flag, meta, attempt.
--
-- A job is in _jobs or in one batch, never in both. A fetch moves it here, in one statement; whoever wants more of it than that
-- it ended well moves its whole batch back (_unpack), as the claimed rows that it stands for, and goes on as with any row.
--
--   lock_token  of the fetch; locked_by, locked_at, lock_token are those of each of its claims
--   open        a bit for each job, by its place in the arrays: 1 while its claim stands
--   ids         in order; in each array at the same place what is known of the job, all else of it is null or 0, and it was never updated
--   queue       null as a whole, or of each job, where none of them has one

create table asyncq._batches (
  lock_token bigint not null,
  locked_at timestamptz not null,
  locked_by int not null,
  open varbit not null,
  ids bigint[] not null,
  run_at timestamptz[] not null,
  created_at timestamptz[] not null,
  task_id int[] not null,
  priority smallint[] not null,
  max_attempts smallint[] not null,
  queue text[] collate "C",
  payload json[] not null,
  constraint batches_pkey primary key (locked_by, lock_token)
) with (
  -- Each settlement writes a batch once more, and no column of an index: with room on the page that needs no new entries.
  fillfactor = 50,
  -- A few rows at a time, which are read as a whole by who looks for one job.
  autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_scale_factor = 0,
  autovacuum_vacuum_insert_threshold = -1,
  autovacuum_vacuum_cost_delay = 0,
  vacuum_truncate = off,
  -- The arrays live and die with their batch.
  toast.autovacuum_vacuum_threshold = 10000,
  toast.autovacuum_vacuum_scale_factor = 0.01,
  toast.autovacuum_vacuum_insert_threshold = -1,
  toast.autovacuum_vacuum_cost_delay = 0,
  toast.vacuum_truncate = off
);

-- They live for some milliseconds: to compress them costs more than to write them.
alter table asyncq._batches
  alter ids set storage external, alter run_at set storage external, alter created_at set storage external,
  alter task_id set storage external, alter priority set storage external, alter max_attempts set storage external,
  alter queue set storage external, alter payload set storage external;

-- Rows as the public view shows them: for who knows that a job has one, and need not look into batches.
create view asyncq._shown_jobs as
select
  job.id,
  job.queue as queue_name,
  task.identifier as task_identifier,
  job.priority,
  job.run_at,
  least(job.attempts + (job.locked_by is not null)::int, greatest(job.attempts, job.max_attempts))::smallint as attempts,
  job.max_attempts,
  job.last_error,
  job.created_at,
  job.updated_at,
  job.key,
  job.locked_at,
  job.locked_by::text as locked_by,
  job.revision,
  job.flags
from asyncq._jobs as job
join asyncq._tasks as task on task.id = job.task_id;

-- The union within, the names of the tasks without: so a page in the order of ids is read by the index of _jobs.
create or replace view asyncq.jobs as
select
  job.id,
  job.queue as queue_name,
  task.identifier as task_identifier,
  job.priority,
  job.run_at,
  least(job.attempts + (job.locked_by is not null)::int, greatest(job.attempts, job.max_attempts))::smallint as attempts,
  job.max_attempts,
  job.last_error,
  job.created_at,
  job.updated_at,
  job.key,
  job.locked_at,
  job.locked_by::text as locked_by,
  job.revision,
  job.flags
from (
  select id, queue, task_id, priority, run_at, attempts, max_attempts, last_error, created_at, updated_at, key, locked_at,
    locked_by, revision, flags
  from asyncq._jobs
  union all
  select packed.id, packed.queue, packed.task_id, packed.priority, packed.run_at, 0::smallint, packed.max_attempts, null,
    packed.created_at, packed.created_at, null, batch.locked_at, batch.locked_by, 0, null
  from asyncq._batches as batch
  cross join lateral unnest(
      batch.ids, batch.queue, batch.task_id, batch.priority, batch.run_at, batch.max_attempts, batch.created_at)
    with ordinality as packed(id, queue, task_id, priority, run_at, max_attempts, created_at, place)
  where get_bit(batch.open, packed.place::int - 1) = 1) as job
join asyncq._tasks as task on task.id = job.task_id;
