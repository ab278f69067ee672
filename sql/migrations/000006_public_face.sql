-- The public types: the view over jobs (columns may be added at its end, never removed), the spec of a batch, and what is told of
-- a recurring item.

create view asyncq.jobs as
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

create type asyncq.job_spec as (
  identifier text,
  payload json,
  queue_name text,
  run_at timestamptz,
  max_attempts smallint,
  job_key text,
  priority smallint,
  flags text[]
);

create type asyncq.cron_item as (
  identifier text,
  source text,
  task_identifier text,
  expression text,
  dialect text,
  tz text,
  payload json,
  options jsonb,
  overlap text,
  paused_at timestamptz,
  known_since timestamptz,
  last_run timestamptz,
  next_run timestamptz,
  problem text,
  workers text[]
);
