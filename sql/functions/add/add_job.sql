-- Add one job. Every null is the default: payload {}, no queue, due now, 25 attempts, priority 0, no flags.
-- options is an object whose members docs/guide/sql.md lists; any other member is an error.
-- Returns the view's row of the added job, or of the existing job that fulfils the request. If that job has ended, the
-- row has its id, task and time of creation, as far as they are known, and nulls. If a policy rejects the job, the
-- error is GWBDJ, whose detail is the id and state of the other job as JSON.
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
  given constant asyncq._new_job := asyncq._new_job(
    identifier, payload, queue_name, run_at, asyncq._extra(options, identifier, queue_name, payload, job_key), max_attempts,
    job_key, priority, asyncq._flags(flags), job_key_mode);
  added_id bigint;
  done record;
begin
  if job_key is null and given.unique_key is null and given.idempotency_key is null then
    perform asyncq._check_jobs(array[given]);
    added_id := asyncq._add_keyless_job(given);
    if added_id is not null then
      return asyncq._added_job('added', added_id, null, null, identifier);
    end if;
  end if;
  -- A job with a key; or one whose task is not stored yet.
  select added.* into strict done from asyncq._add_many_jobs(array[given]) as added;
  return asyncq._added_job(
    coalesce(done.outcomes[1], 'added'), done.ids[1], done.existing_ids[1], done.existing_states[1], identifier);
end
$$;

-- The view's row of the job that fulfils a request, as add_job returns it; the error GWBDJ for a rejected request.
create or replace function asyncq._added_job(
  outcome text, job_id bigint, existing_id bigint, existing_state text, identifier text) returns asyncq.jobs
  language plpgsql volatile
  as $$
declare
  job asyncq.jobs;
begin
  if outcome = 'rejected' then
    raise exception using errcode = 'GWBDJ', column = 'unique',
      message = 'job ' || existing_id || ', which is ' || existing_state || ', prevents another one like it',
      detail = json_build_object('id', existing_id, 'state', existing_state);
  end if;
  select shown.* into job from asyncq._shown_jobs as shown where shown.id = job_id;
  if not found then
    job.id := job_id;
    select task.identifier, ended.created_at into job.task_identifier, job.created_at
      from asyncq._ended_jobs as ended join asyncq._tasks as task on task.id = ended.task_id where ended.id = job_id;
    job.task_identifier := coalesce(job.task_identifier, _added_job.identifier);
  end if;
  return job;
end
$$;
