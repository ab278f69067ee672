-- Whether a job could run as far as its row says: it is not claimed, and has an attempt left. The partial indexes of
-- fetch_jobs have the same condition. This and the three functions below are the only copies of the conditions of a
-- fetch. They are inlined, so that indexes are used.
create or replace function asyncq._is_ready(job asyncq._jobs) returns boolean
  language sql immutable parallel safe
  as $$ select job.locked_by is null and job.attempts < job.max_attempts $$;

-- Whether a job's time has come at a moment.
create or replace function asyncq._is_due(job asyncq._jobs, moment timestamptz) returns boolean
  language sql immutable parallel safe
  as $$ select job.run_at <= moment $$;

-- Whether a worker that knows these tasks can run a job.
create or replace function asyncq._is_known(job asyncq._jobs, task_ids int[]) returns boolean
  language sql immutable parallel safe
  as $$ select job.task_id = any(task_ids) $$;

-- Whether a worker that forbids these flags (null: none) may run a job.
create or replace function asyncq._is_allowed(job asyncq._jobs, forbidden_flags text[]) returns boolean
  language sql immutable parallel safe
  as $$ select asyncq._are_allowed(job.flags, forbidden_flags) $$;

-- Whether a worker that forbids these flags (null: none) may run a job that has these (null: none).
create or replace function asyncq._are_allowed(flags jsonb, forbidden_flags text[]) returns boolean
  language sql immutable parallel safe
  as $$ select forbidden_flags is null or flags is null or not flags ?| forbidden_flags $$;
