-- The three statements that store the options of a job: a new option with a column is a line in each.

-- Store new jobs, whose tasks are stored. Returns their ids, in the order of the jobs, so that equal jobs run in it.
create or replace function asyncq._insert_jobs(jobs asyncq._new_job[]) returns bigint[]
  language plpgsql volatile
  as $$
#variable_conflict use_column
declare
  moment constant timestamptz := asyncq.now();
  -- The task of all of them, if they have the same one: then it is looked up once.
  same constant text := (
    select min(job.identifier) from unnest(jobs) as job having min(job.identifier) = max(job.identifier));
  -- Most tasks have no limit: then their jobs are not asked one by one.
  is_limited constant boolean := exists (
    select from asyncq._tasks as task where task.limit_id is not null and (same is null or task.identifier = same));
  ids bigint[];
  partitioned bigint[];
  waits boolean;
begin
  with added as (
    -- The ids are drawn in the order of the rows, the answer is sorted by them.
    insert into asyncq._jobs
      (run_at, created_at, updated_at, task_id, priority, max_attempts, partition, queue, key, flags, payload, meta, unique_key,
        keep_until, keep_states, extras, expires_at, deadline_at, due_at)
    select case when job.after is null then coalesce(job.run_at, moment) else '9999-01-01 00:00:00+00' end, moment, moment, job.task_id, asyncq._priority(job.priority),
      asyncq._max_attempts(job.max_attempts),
      case when job.queue_name is not null or is_limited then asyncq._partition_of(job.task_id, job.queue_name, job.payload) end,
      job.queue_name, job.job_key, job.flags, coalesce(job.payload, '{}'), job.meta, job.unique_key,
      asyncq._kept_until(job.states, job.period, job.window_s, job.extras, moment),
      asyncq._kept_states(job.states, job.idempotency_key), job.extras,
      asyncq._limit_at(job.expires_at, job.expires_s, job.run_at, moment),
      asyncq._limit_at(job.deadline_at, job.deadline_s, job.run_at, moment),
      case when job.after is not null then coalesce(job.run_at, moment) end
    from (
      -- An old snapshot may show two rows of one name, one of which is gone.
      select given.*, case
          when same is null then (
            select min(task.id) from asyncq._tasks as task where task.identifier = given.identifier having count(*) = 1)
          else (select min(task.id) from asyncq._tasks as task where task.identifier = same having count(*) = 1)
        end as task_id
      from unnest(jobs) with ordinality as given
      -- In their order; and with an offset, so that the task is not looked up once more for the condition.
      order by given.ordinality offset 0) as job
    where job.task_id is not null
    returning id, partition, due_at is not null as is_pending)
  select array_agg(id order by id), array_agg(id) filter (where partition is not null), bool_or(is_pending)
    into ids, partitioned, waits
    from added;
  if coalesce(cardinality(ids), 0) <> cardinality(jobs) then
    raise exception using errcode = '40001',
      message = 'a task vanished while its job was added; the same call will work';
  end if;
  if partitioned is not null then
    perform asyncq._wake_partitions(partitioned);
  end if;
  if waits then
    perform asyncq._add_waits(ids, jobs);
  end if;
  return ids;
end
$$;

-- Add one job without a key or policy, which the caller has checked: as _add_jobs does, at a third of its cost. Returns
-- null, and does nothing, if its task is not stored yet or about to be removed, or if the job waits for others; then
-- _add_jobs has to add it.
create or replace function asyncq._add_keyless_job(job asyncq._new_job) returns bigint
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
declare
  moment constant timestamptz := asyncq.now();
  due constant timestamptz := coalesce(job.run_at, moment);
  stored record;
begin
  insert into asyncq._jobs
      (run_at, created_at, updated_at, task_id, priority, max_attempts, partition, queue, flags, payload, meta, extras, keep_until,
        expires_at, deadline_at)
    select due, moment, moment, known.id, asyncq._priority(job.priority), asyncq._max_attempts(job.max_attempts),
      case when job.queue_name is not null or known.limit_id is not null
        then asyncq._partition_of(known.id, job.queue_name, job.payload) end,
      job.queue_name, job.flags, coalesce(job.payload, '{}'), job.meta, job.extras,
      asyncq._kept_until(null, null, null, job.extras, moment),
      asyncq._limit_at(job.expires_at, job.expires_s, job.run_at, moment),
      asyncq._limit_at(job.deadline_at, job.deadline_s, job.run_at, moment)
    from asyncq._tasks as known where known.identifier = job.identifier and known.retired_in is null and job.after is null
    returning id, partition, task_id, priority into stored;
  -- As _wake_partitions does, whose statement for many jobs takes four times as long.
  if stored.partition is not null then
    insert into asyncq._wakeups (at, partition, job_id, task_id, priority, flags)
      values (due, stored.partition, stored.id, stored.task_id, stored.priority, job.flags);
  end if;
  -- As in _wake_for: the instant decides, not the start of the transaction.
  if stored.id is not null and due <= asyncq.clock() + interval '60 s' then
    perform asyncq._wake_workers();
  end if;
  return stored.id;
end
$$;

-- Change waiting jobs to the new adds of their keys. ids are those of the waiting jobs, which are locked; the tasks of
-- the new ones are stored. An option that the add leaves out becomes the default, except that a job stays kept as an
-- earlier add asked.
create or replace function asyncq._update_jobs(jobs asyncq._new_job[], ids bigint[]) returns void
  language plpgsql volatile
  as $$
#variable_conflict use_column
declare
  moment constant timestamptz := asyncq.now();
  updated int;
begin
  update asyncq._jobs as old
    set task_id = task.id, queue = job.queue_name,
      partition = case when job.queue_name is not null or task.limit_id is not null
        then asyncq._partition_of(task.id, job.queue_name, asyncq._merged_payload(old.payload, coalesce(job.payload, '{}'))) end,
      payload = asyncq._merged_payload(old.payload, coalesce(job.payload, '{}')),
      run_at = case when job.job_key_mode = 'preserve_run_at' and old.attempts = 0 then old.run_at
        else coalesce(job.run_at, moment) end,
      max_attempts = asyncq._max_attempts(job.max_attempts), priority = asyncq._priority(job.priority),
      flags = job.flags, meta = job.meta, unique_key = job.unique_key,
      extras = asyncq._with_watchers(job.extras, old.extras -> 'watchers'),
      expires_at = asyncq._limit_at(job.expires_at, job.expires_s, job.run_at, moment),
      deadline_at = asyncq._limit_at(job.deadline_at, job.deadline_s, job.run_at, moment),
      keep_until = greatest(old.keep_until, asyncq._kept_until(job.states, job.period, job.window_s, job.extras, old.created_at)),
      keep_states = case when asyncq._kept_states(job.states, job.idempotency_key) <@ old.keep_states then old.keep_states
        else array_cat(old.keep_states, asyncq._kept_states(job.states, job.idempotency_key)) end,
      attempts = 0, interruptions = 0, last_error = null, revision = old.revision + 1, updated_at = moment
    from unnest(jobs) with ordinality as job
    cross join lateral (select id, limit_id from asyncq._tasks where identifier = job.identifier offset 0) as task
    where old.id = any(array[ids[job.ordinality]]);
  get diagnostics updated = row_count;
  if updated <> cardinality(jobs) then
    raise exception using errcode = '40001',
      message = 'a task vanished while its job was updated; the same call will work';
  end if;
  -- They were done for the payload before.
  delete from asyncq._steps where job_id = any(ids);
  perform asyncq._wake_partitions(ids);
end
$$;

-- Two arrays are joined, the old one first; in every other case the new payload replaces the old.
create or replace function asyncq._merged_payload(old json, new json) returns json
  language plpgsql immutable parallel safe
  as $$
declare
  joined json;
begin
  if json_typeof(old) is distinct from 'array' or json_typeof(new) is distinct from 'array' then
    return new;
  end if;
  joined := old::jsonb || new::jsonb;
  if octet_length(joined::text) > 16777216 then
    raise exception using errcode = 'GWBPL', column = 'payload',
      message = 'payload is ' || octet_length(joined::text) || ' bytes of JSON once it is merged, at most 16777216 are allowed';
  end if;
  return joined;
end
$$;

-- Until when an ended job of an add has to be kept: for the period of its unique policy, if that looks at ended jobs.
-- Also for the window of its idempotency key. -infinity: not so, but its extras say how long its history is kept, and
-- _end_jobs has to write its end. Null: it is not kept.
create or replace function asyncq._kept_until(
  states text[], period text, window_s float8, extras jsonb, created_at timestamptz) returns timestamptz
  language sql stable
  as $$
  select greatest(
    case when states && '{completed,cancelled,discarded}' then
      coalesce(((created_at at time zone 'UTC') + asyncq._period(period)) at time zone 'UTC', 'infinity')
    end,
    created_at + make_interval(secs => window_s),
    case when (extras ->> 'keep_s')::float8 > 0 or extras ? 'watchers' then '-infinity'::timestamptz end)
  $$;

-- In which end states a job of an add has to be kept: those that its unique policy names; all for an idempotency key.
create or replace function asyncq._kept_states(states text[], idempotency_key text) returns text[]
  language sql immutable
  as $$
  select case
    when idempotency_key is not null then '{completed,cancelled,discarded}'::text[]
    when states && '{completed,cancelled,discarded}' then array_remove(array[
      case when 'completed' = any(states) then 'completed' end,
      case when 'cancelled' = any(states) then 'cancelled' end,
      case when 'discarded' = any(states) then 'discarded' end], null)
  end
  $$;

-- The moment of a time limit of an add; null for none. Seconds count from the moment of the add, or from run_at if that
-- is later.
create or replace function asyncq._limit_at(at timestamptz, after_s float8, run_at timestamptz, moment timestamptz)
  returns timestamptz
  language sql immutable
  as $$ select coalesce(at, greatest(run_at, moment) + make_interval(secs => after_s)) $$;
