-- get_job(id bigint) -> id bigint, queue_name text, task_identifier text, priority int2, run_at timestamptz, attempts int2, max_attempts int2, last_error text, created_at timestamptz, updated_at timestamptz, key text, locked_at timestamptz, locked_by text, revision int4, flags text, payload text, meta text, state text
select jobs.id, jobs.queue_name, jobs.task_identifier, jobs.priority, jobs.run_at, jobs.attempts, jobs.max_attempts,
  jobs.last_error, jobs.created_at, jobs.updated_at, jobs.key, jobs.locked_at, jobs.locked_by, jobs.revision,
  jobs.flags::text as flags, job.payload::text as payload, job.meta::text as meta, asyncq._state(job) as state
from asyncq.jobs join asyncq._jobs as job on job.id = jobs.id
where jobs.id = $1
