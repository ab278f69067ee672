-- A job as the client's `Job`, in JSON: times in UTC, flags sorted, the payload as unchanged text. It is one value,
-- which no codec of the caller's connection changes.
create or replace function asyncq._document(job asyncq._jobs) returns json
  language sql stable parallel safe
  set search_path = pg_catalog, pg_temp
  as $$
  select json_build_object(
    'id', job.id, 'task', (select identifier from asyncq._tasks where id = job.task_id), 'queue', job.queue,
    'payload', job.payload::text, 'priority', job.priority, 'run_at', asyncq._utc(coalesce(job.due_at, job.run_at)),
    'attempts', coalesce(job.attempts_made, job.attempts), 'max_attempts', job.max_attempts, 'last_error', job.last_error,
    'created_at', asyncq._utc(job.created_at), 'updated_at', asyncq._utc(job.updated_at), 'key', job.key,
    'locked_at', asyncq._utc(job.locked_at), 'locked_by', job.locked_by::text, 'revision', job.revision,
    'flags', array(select name from jsonb_object_keys(job.flags) as name order by name collate "C"),
    'meta', job.meta, 'state', asyncq._state(job), 'interruptions', job.interruptions,
    'progress', case when job.locked_by is not null then asyncq._progress_of(job) end,
    'timeout_s', job.extras -> 'timeout_s', 'soft_s', job.extras -> 'soft_s', 'expires_at', asyncq._utc(job.expires_at),
    'deadline_at', asyncq._utc(job.deadline_at))
  $$;

-- An ended job that is kept as the client's `Job`, in JSON.
create or replace function asyncq._ended_document(job asyncq._ended_jobs) returns json
  language sql stable parallel safe
  set search_path = pg_catalog, pg_temp
  as $$
  select json_build_object(
    'id', job.id, 'task', (select identifier from asyncq._tasks where id = job.task_id), 'queue', job.queue,
    'payload', coalesce(job.payload::text, 'null'), 'priority', job.priority, 'run_at', asyncq._utc(job.run_at),
    'attempts', job.attempts, 'max_attempts', job.max_attempts, 'last_error', job.error,
    'created_at', asyncq._utc(job.created_at), 'updated_at', asyncq._utc(job.ended_at), 'key', null, 'locked_at', null,
    'locked_by', null, 'revision', 0, 'flags', '{}'::text[], 'meta', job.meta, 'state', job.state,
    'started_at', asyncq._utc(job.started_at), 'ended_at', asyncq._utc(job.ended_at), 'worker_id', job.worker_id,
    'result', job.result::text, 'keep_until', asyncq._utc(nullif(job.keep_until, 'infinity')))
  $$;

-- The failed attempts of a job in JSON, the first one first; of more than a thousand, the last thousand.
create or replace function asyncq._errors(of_job bigint) returns json
  language sql stable parallel safe
  set search_path = pg_catalog, pg_temp
  as $$
  select coalesce(json_agg(json_build_object(
      'number', newest.number, 'kind', newest.kind, 'started_at', asyncq._utc(newest.started_at),
      'ended_at', asyncq._utc(newest.ended_at), 'worker_id', newest.worker_id, 'error', newest.error)
    order by newest.ended_at, newest.number), '[]')
  from (
    select attempt.* from asyncq.attempts as attempt
    where attempt.job_id = of_job order by attempt.ended_at desc, attempt.number desc limit 1000) as newest
  $$;

-- The steps of a job that are done, in JSON, in their order.
create or replace function asyncq._steps_of(of_job bigint) returns json
  language sql stable parallel safe
  set search_path = pg_catalog, pg_temp
  as $$
  select coalesce(
      json_agg(json_build_object('name', step.name, 'at', asyncq._utc(step.done_at)) order by step.done_at, step.name), '[]')
  from asyncq._steps as step
  where step.job_id = of_job
  $$;

-- The progress that the claim of a running job has reported, in JSON; null if there is none, and on a standby, where an
-- unlogged table cannot be read.
create or replace function asyncq._progress_of(job asyncq._jobs) returns json
  language plpgsql stable parallel safe
  set search_path = pg_catalog, pg_temp
  as $$
begin
  if pg_is_in_recovery() then
    return null;
  end if;
  return (
    select json_build_object(
      'done', reported.done, 'total', reported.total, 'note', reported.note, 'at', asyncq._utc(reported.reported_at))
    from asyncq._progress as reported
    where reported.job_id = job.id and reported.locked_by = job.locked_by and reported.lock_token = job.lock_token);
end
$$;

-- A moment as text in UTC, whatever zone and style the session has.
create or replace function asyncq._utc(moment timestamptz) returns text
  language sql immutable parallel safe
  as $$ select to_char(moment at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') $$;

-- Jobs that have rows, as the view shows them and as documents, in the order of their ids, one probe each. Volatile: it
-- sees the changes of its caller.
create or replace function asyncq._shown(ids bigint[]) returns table (shown asyncq.jobs, document text)
  language sql volatile
  as $$
  select seen.line, written.document
  from unnest(ids) as given(id)
  cross join lateral (
    select row(shown.*)::asyncq.jobs from asyncq._shown_jobs as shown where shown.id = given.id offset 0) as seen(line)
  cross join lateral (
    select asyncq._document(job)::text from asyncq._jobs as job where job.id = given.id offset 0) as written(document)
  order by given.id
  $$;
