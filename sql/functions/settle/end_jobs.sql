-- End jobs in this state, whose rows the caller has locked: they are deleted, and kept as ended jobs if that is wanted.
-- results are the return values of their handlers as JSON. durations_s are the times of their last runs, faults the
-- reasons why there is no result. They are parallel to ids; null: none, and not known. Clients that wait for a job are
-- notified, and jobs that wait for it are looked at after the commit. Such a job has keep_until.
create or replace function asyncq._end_jobs(
  ids bigint[], end_state text, results text[] default null, durations_s float8[] default null, faults text[] default null)
  returns void
  language plpgsql volatile
  as $$
#variable_conflict use_column
declare
  pending bigint[];
begin
  perform asyncq._keep_job(job, end_state, given.result, given.duration_s, given.fault)
    from unnest(ids, results, durations_s, faults) as given(id, result, duration_s, fault)
    join asyncq._jobs as job on job.id = any(array[given.id])
    left join asyncq._tasks as task on task.id = job.task_id
    where job.keep_until is not null or task.keep_s is not null;
  if found then
    perform asyncq._tell_watchers(ids, end_state);
    perform asyncq._cut_waits(ids, end_state, results);
  end if;
  with gone as (
    delete from asyncq._jobs as job where job.id = any(ids) returning job.id, job.due_at)
  select array_agg(gone.id) into pending from gone where gone.due_at is not null;
  if pending is not null then
    perform asyncq._drop_waits(pending);
  end if;
end
$$;

-- Keep a job that ends as a row of _ended_jobs, if its history is kept, or if an add asked for it. job is its row until
-- now. The end of an awaited job is kept for a minute: if its notification is lost, the client asks.
-- An id is used twice if its sequence was not copied to another server. The later job is kept: an error would stop
-- all.
create or replace function asyncq._keep_job(
  job asyncq._jobs, end_state text, result text, duration_s float8, fault text default null) returns void
  language plpgsql volatile
  as $$
#variable_conflict use_variable
declare
  -- A discarded job ended long before its row is removed.
  ended_at constant timestamptz := case end_state when 'discarded' then job.updated_at else asyncq.now() end;
  asked_until constant timestamptz := case
    when job.keep_until > asyncq.clock() and end_state = any(job.keep_states) then job.keep_until end;
  watched_until constant timestamptz := case when job.extras ? 'watchers' then asyncq.clock() + interval '1 min' end;
  kept_until timestamptz;
  keeps_payload boolean;
begin
  select ended_at + make_interval(secs => nullif(coalesce((job.extras ->> 'keep_s')::float8, task.keep_s), 0)), task.keeps_payload
    into kept_until, keeps_payload
    from asyncq._tasks as task where task.id = job.task_id;
  if kept_until <= asyncq.clock() then
    kept_until := null;
  end if;
  if coalesce(asked_until, kept_until, watched_until) is null then
    return;
  end if;
  insert into asyncq._ended_jobs (
      id, created_at, ended_at, keep_until, task_id, state, unique_key,
      run_at, started_at, worker_id, attempts, max_attempts, priority, queue, error, payload, result, meta)
    select job.id, job.created_at, ended_at, greatest(asked_until, kept_until, watched_until), job.task_id, end_state,
      case when asked_until is not null then job.unique_key end,
      past.run_at, past.started_at, past.worker_id, told.attempts, past.max_attempts, past.priority, past.queue, told.error,
      past.payload, told.result, past.meta
    from (select) as ended
    left join (
      select job.run_at, ended_at - make_interval(secs => duration_s), job.locked_by, job.max_attempts, job.priority, job.queue,
        case when keeps_payload then job.payload end, job.meta
      ) as past(run_at, started_at, worker_id, max_attempts, priority, queue, payload, meta) on kept_until is not null
    left join (
      select coalesce(job.attempts_made, job.attempts) + (duration_s is not null)::int,
        case end_state when 'completed' then fault else job.last_error end, result::json
      ) as told(attempts, error, result) on coalesce(kept_until, watched_until) is not null
    on conflict (id) do update set (
      created_at, ended_at, keep_until, task_id, state, unique_key,
      run_at, started_at, worker_id, attempts, max_attempts, priority, queue, error, payload, result, meta) = row(
      excluded.created_at, excluded.ended_at, excluded.keep_until, excluded.task_id, excluded.state, excluded.unique_key,
      excluded.run_at, excluded.started_at, excluded.worker_id, excluded.attempts, excluded.max_attempts, excluded.priority,
      excluded.queue, excluded.error, excluded.payload, excluded.result, excluded.meta);
end
$$;

-- Keep a job that completed in its own row, as _keep_job. ids are those of all jobs of the statement, in order; results
-- and ages, the microseconds that their runs took, are parallel to them.
create or replace function asyncq._keep_completed(job asyncq._jobs, ids bigint[], results text[], ages bigint[]) returns void
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
declare
  place constant int := width_bucket(job.id, ids);
begin
  perform asyncq._keep_job(job, 'completed', results[place], ages[place] / 1000000.0);
end
$$;

-- Keep jobs of a batch that completed, if their tasks are kept. ended are their ids, the others are those of
-- _keep_completed. No add asked to keep such a job. Its place in the arrays is found by binary search: a join would
-- compare each job with each.
create or replace function asyncq._keep_batch(
  batch asyncq._batches, ended bigint[], ids bigint[], results text[], ages bigint[]) returns void
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
declare
  moment constant timestamptz := asyncq.now();
begin
  insert into asyncq._ended_jobs as kept (
      id, created_at, ended_at, keep_until, task_id, state, unique_key,
      run_at, started_at, worker_id, attempts, max_attempts, priority, queue, error, payload, result, meta)
    select one.id, batch.created_at[one.member], moment, moment + make_interval(secs => task.keep_s), task.id, 'completed', null,
      batch.run_at[one.member], moment - ages[one.place] * interval '1 us', batch.locked_by, 1, batch.max_attempts[one.member],
      batch.priority[one.member], batch.queue[one.member], null, case when task.keeps_payload then batch.payload[one.member] end,
      results[one.place]::json, batch.meta[one.member]
    from (
      select job.id, width_bucket(job.id, batch.ids) as member, width_bucket(job.id, _keep_batch.ids) as place
      from unnest(ended) as job(id) offset 0) as one
    join asyncq._tasks as task on task.id = batch.task_id[one.member]
    where task.keep_s is not null
    on conflict (id) do update set (
      created_at, ended_at, keep_until, task_id, state, unique_key,
      run_at, started_at, worker_id, attempts, max_attempts, priority, queue, error, payload, result, meta) = row(
      excluded.created_at, excluded.ended_at, excluded.keep_until, excluded.task_id, excluded.state, excluded.unique_key,
      excluded.run_at, excluded.started_at, excluded.worker_id, excluded.attempts, excluded.max_attempts, excluded.priority,
      excluded.queue, excluded.error, excluded.payload, excluded.result, excluded.meta);
end
$$;

-- Cancel running jobs, whose rows the caller has locked. Their keys are free at once, and their workers are notified at
-- commit. They end as cancelled, whatever their result. A worker also finds the mark at its next beat.
create or replace function asyncq._cancel_running(ids bigint[]) returns void
  language plpgsql volatile
  as $$
#variable_conflict use_column
begin
  update asyncq._jobs as job set cancelled_at = asyncq.now(), updated_at = asyncq.now(), key = null, rerun = null
    where job.id = any(ids) and job.locked_by is not null and job.cancelled_at is null;
  perform pg_catalog.pg_notify('asyncq:cancel', job.locked_by || ' ' || job.id || ' ' || job.lock_token)
    from asyncq._jobs as job where job.id = any(ids) and job.locked_by is not null;
end
$$;
