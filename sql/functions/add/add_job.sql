-- Add one job. Every null is the default: payload {}, no queue, due now, 25 attempts, priority 0, no flags.
-- options is an object; any other member than these is an error:
--   meta              an object that is stored with the job
--   unique            a unique policy of the Open Job Spec: which jobs may not exist beside this one, and what happens then
--   singleton         true: at most one job of the task waits or runs; with subject (1 to 512 characters) one for each subject
--   force             true: the job is added beside any other, and bars later ones
--   rerun             true: if the other job runs, the payload is stored, and the job runs again when its run ends
--   idempotency_key   1 to 200 characters: for a day, or idempotency_window_s seconds, the same request returns the same job
-- Returns the view's row of the added job, or of the existing job that fulfils the request. If that job has ended, the
-- row has its id, task and time of creation, as far as they are known, and nulls. A job that its policy rejects is the
-- error GWBDJ, whose detail is the id and state of the other job as JSON.
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
  extra jsonb;
  added_id bigint;
  done record;
  job asyncq.jobs;
begin
  perform asyncq._check_options(options);
  if options is not null then
    extra := asyncq._extra(options, identifier, queue_name, payload, job_key);
  end if;
  if job_key is null and extra is null then
    perform asyncq._check_jobs(
      array[identifier], array[payload], array[queue_name], array[run_at], array[max_attempts], null, array[priority],
      array[job_key_mode]);
    added_id := asyncq._add_keyless_job(
      identifier, coalesce(payload, '{}'), queue_name, run_at, max_attempts, priority, asyncq._flags(flags), options -> 'meta');
  end if;
  -- A job with a key; or one whose task is not stored yet.
  if added_id is null then
    select added.ids[1] as id, coalesce(added.outcomes[1], 'added') as outcome, added.existing_ids[1] as existing_id,
        added.existing_states[1] as existing_state
      into strict done
      from asyncq._add_many_jobs(
        array[identifier], array[payload], array[queue_name], array[run_at], array[max_attempts], array[job_key],
        array[priority], array[asyncq._flags(flags)], array[job_key_mode], array[options -> 'meta'], array[extra]) as added;
    if done.outcome = 'rejected' then
      raise exception using errcode = 'GWBDJ', column = 'unique',
        message = 'job ' || done.existing_id || ', which is ' || done.existing_state || ', prevents another one like it',
        detail = json_build_object('id', done.existing_id, 'state', done.existing_state);
    end if;
    added_id := done.id;
  end if;
  select shown.* into job from asyncq._shown_jobs as shown where shown.id = added_id;
  if not found then
    job.id := added_id;
    select task.identifier, ended.created_at into job.task_identifier, job.created_at
      from asyncq._ended_jobs as ended join asyncq._tasks as task on task.id = ended.task_id where ended.id = added_id;
    job.task_identifier := coalesce(job.task_identifier, identifier);
  end if;
  return job;
end
$$;
