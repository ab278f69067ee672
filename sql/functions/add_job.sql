-- Add one job. Every null is the default: payload {}, no queue, due now, 25 attempts, priority 0, no flags.
-- options takes meta (an object that goes with the job); another member is an error.

create or replace function asyncq.add_job(
  identifier text,
  payload json default null,
  queue_name text default null,
  run_at timestamptz default null,
  max_attempts int default null,
  job_key text default null,
  priority int default null,
  flags text[] default null,
  job_key_mode text default 'replace',
  options jsonb default null) returns asyncq.jobs
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
#variable_conflict use_variable
declare
  job_id bigint;
  job asyncq.jobs;
begin
  perform asyncq._check_options(options);
  select added.id into strict job_id
  from asyncq._add_jobs(
    array[identifier], array[payload], array[queue_name], array[run_at], array[max_attempts], array[job_key],
    array[priority], array[asyncq._flags(flags)], array[job_key_mode], array[options -> 'meta']) as added;
  select jobs.* into job from asyncq.jobs where jobs.id = job_id;
  return job;
end
$$;
