-- Why a job does not run: a row for each reason, in order. It uses the conditions of a fetch. A job that is unknown has
-- no reason; a job that waits for nothing has the one reason 'ready'.
--
--   reason          what it waits for
--   ended           it has ended, and was kept
--   running         nothing: it runs, or its worker has died and will be rescued
--   cancelled       its handler, which still runs
--   last_attempt    (it runs, and will not be tried again)
--   discarded       it has failed for good: it has to be retried by hand
--   expired         nothing: it has expired, and the next fetch or round of maintenance ends it as cancelled
--   pending         other jobs, see _waits
--   blocked         a job that is discarded: it has to be retried by hand
--   paused          the end of a pause: of its task, its queue, its limit or key, or of everything
--   not_due         its time, or the time of its retry
--   no_worker       a worker
--   unknown_task    a worker that knows its task
--   forbidden_flag  a worker that does not forbid its flags
--   not_chosen      a worker that takes its queue or its limit
--   queue_busy      the job of its queue that runs
--   queue_behind    an earlier job of its queue
--   moving          its task has got another limit: workers move it into its partition
--   backed_off      a time, as a handler asked for its queue or key
--   rate            a time: as many jobs have started as the rate allows
--   partition_full  the end of a job of its key, or of its limit
--   partition_behind  an earlier job of its key
--   ready           a free slot: the next fetch takes it, after the jobs before it
create or replace function asyncq.explain(job_id bigint) returns table (reason text, detail text)
  language plpgsql stable security definer
  set search_path = pg_catalog, pg_temp
  -- The texts contain times, which must not depend on the settings of the session.
  set timezone = 'UTC'
  set datestyle = 'ISO, YMD'
  set intervalstyle = 'postgres'
  as $$
declare
  moment constant timestamptz := asyncq.now();
  job asyncq._jobs;
  limit_name text;
  -- Workers that live; of these, those that know the task; of these, those that do not forbid a flag of the job; of
  -- these, those that take its queue and limit.
  live int[];
  knowing int[];
  allowed int[];
  able int[];
  waits boolean := false;
begin
  select stored.* into job from (
    select plain.* from asyncq._jobs as plain where plain.id = job_id
    union all
    select batched.* from asyncq._batched_jobs(job_id) as batched) as stored;
  if job.id is null then
    return query
      select 'ended', 'ended as ' || ended.state || ' at ' || ended.ended_at || ', kept until ' || ended.keep_until || ' '
        || case when ended.run_at is null then 'for later adds alone' else 'with its history' end
      from asyncq._ended_jobs as ended where ended.id = job_id;
    return;
  elsif not asyncq._is_ready(job) then
    return query select said.reason, said.detail from asyncq._explain_unready(job) as said;
    return;
  end if;
  if job.expires_at <= moment then
    waits := true;
    return query select 'expired', 'has expired at ' || job.expires_at || ', and will end as cancelled';
  end if;
  if job.due_at is not null then
    return query select said.reason, said.detail from asyncq._explain_pending(job) as said;
    return;
  end if;
  return query select 'paused', paused.what || coalesce(' ' || paused.key || ' of limit', '') || coalesce(' ' || paused.name, '')
      || ' is paused since ' || date_trunc('second', paused.paused_at) || ' by ' || paused.paused_by || coalesce(': ' || paused.reason, '')
    from asyncq._pauses_of(job) as paused;
  waits := waits or found;
  if not asyncq._is_due(job, moment) then
    waits := true;
    return query select 'not_due',
      case when job.attempts > 0 then 'waits for its retry, due at ' else 'due at ' end || job.run_at
        || ', in ' || date_trunc('second', job.run_at - moment);
  end if;

  limit_name := asyncq._limit_name(job.task_id);
  select array_agg(worker.id order by worker.id),
      array_agg(worker.id order by worker.id) filter (where tasks.known),
      array_agg(worker.id order by worker.id) filter (where tasks.known and flags.allowed),
      array_agg(worker.id order by worker.id)
        filter (where tasks.known and flags.allowed and asyncq._takes(worker, job.queue, limit_name))
    into live, knowing, allowed, able
    from asyncq._workers as worker
    cross join lateral (select asyncq._is_known(job, asyncq._task_ids_of(worker.tasks)) as known) as tasks
    cross join lateral (select asyncq._is_allowed(job, worker.forbidden_flags) as allowed) as flags
    where asyncq._is_live(worker);
  if live is null then
    return query select 'no_worker', 'no worker is alive';
  elsif knowing is null then
    return query select 'unknown_task',
      'no live worker knows the task ' || task.identifier || '; alive: ' || array_to_string(live, ', ')
      from asyncq._tasks as task where task.id = job.task_id;
  elsif allowed is null then
    return query select 'forbidden_flag',
      'every live worker that knows its task forbids one of its flags: ' || string_agg(distinct flag.name, ', ')
      from asyncq._workers as worker, unnest(worker.forbidden_flags) as flag(name)
      where worker.id = any(knowing) and job.flags ? flag.name;
  elsif able is null then
    return query select 'not_chosen',
      'no live worker takes jobs of ' || concat_ws(' and ', 'queue ' || job.queue, 'limit ' || limit_name) || ': '
        || string_agg(
          'worker ' || worker.id || ' ' || concat_ws(', ',
            'has queues ' || case when worker.queues = '{}' then '[]' else array_to_string(worker.queues, ', ') end,
            'excludes ' || nullif(array_to_string(worker.exclude, ', '), '')),
          '; ' order by worker.id)
      from asyncq._workers as worker where worker.id = any(allowed[:10]);
  end if;
  waits := waits or able is null;

  return query select said.reason, said.detail from asyncq._explain_partition(job, able, moment) as said;
  waits := waits or found;
  if not waits then
    return query select 'ready',
      'the next fetch takes it, by worker ' || array_to_string(able, ' or ') || ', when a slot is free';
  end if;
end
$$;

-- Whether a worker takes jobs of this queue and this limit (null: none), by the names that it has chosen. Jobs without
-- both are taken by all. The worker itself chooses by asyncq/domain/share.py.
create or replace function asyncq._takes(worker asyncq._workers, queue text, limit_name text) returns boolean
  language sql immutable
  as $$
  select not own.names && worker.exclude and (worker.queues is null or own.names = '{}' or own.names && worker.queues)
  from (select array_remove(array[queue, limit_name], null) as names) as own
  $$;

-- The name of the limit of a task; null: it has none.
create or replace function asyncq._limit_name(task_id int) returns text
  language sql stable
  as $$
  select held.name from asyncq._tasks as task join asyncq._limits as held on held.id = task.limit_id where task.id = $1
  $$;

-- The pauses for which a ready job waits.
create or replace function asyncq._pauses_of(job asyncq._jobs) returns setof asyncq.pauses
  language sql stable
  as $$
  select paused.* from asyncq.pauses as paused
  left join asyncq._tasks as task on task.id = job.task_id
  left join asyncq._limits as held on held.name = paused.name
  where case paused.what
    when 'task' then paused.name = task.identifier
    when 'queue' then paused.name = job.queue
    when 'limit' then held.id = task.limit_id
    when 'key' then asyncq._partition(held.id, paused.key) = asyncq._partition_of(job.task_id, job.queue, job.payload)
    else true end
  order by paused.paused_at
  $$;

-- The part of explain for jobs that no fetch looks at: those that run or are discarded.
create or replace function asyncq._explain_unready(job asyncq._jobs) returns table (reason text, detail text)
  language sql stable
  as $$
  select said.reason, said.detail
  from (
    select 1 as rank, 'cancelled' as reason,
      'was cancelled at ' || job.cancelled_at || ', ends as cancelled when its handler does' as detail
    where job.cancelled_at is not null
    union all
    select 2, 'running', case
        when asyncq._is_live(worker) then 'runs on worker ' || worker.id || ' (' || worker.host || ', process ' || worker.pid || ')'
        else 'was taken by worker ' || job.locked_by || ', which is not alive: another worker will return it, taken'
      end || ' since ' || job.locked_at
    from (select) as always left join asyncq._workers as worker on worker.id = job.locked_by
    where job.locked_by is not null
    union all
    select 3, 'last_attempt', 'will not be tried again: its attempts are used up, or another job has got its key'
    where job.locked_by is not null and job.attempts + 1 >= job.max_attempts
    union all
    select 4, 'discarded', 'discarded after ' || coalesce(job.attempts_made, job.attempts) || ' of ' || job.max_attempts || ' attempts'
      || coalesce(': ' || split_part(job.last_error, E'\n', 1), '')
    where job.locked_by is null) as said
  order by said.rank
  $$;

-- The part of explain for a pending job: what it waits for, and what keeps it from starting unless somebody acts.
create or replace function asyncq._explain_pending(job asyncq._jobs) returns table (reason text, detail text)
  language sql stable
  as $$
  select 'pending', case edges.number
      when 0 then 'waits for nothing any more: the next look of a worker releases it'
      when 1 then 'waits for job ' || edges.first || asyncq._state_of(edges.first)
      else 'waits for ' || edges.number || ' jobs, first job ' || edges.first || asyncq._state_of(edges.first)
    end
  from (
    select count(*) as number, min(edge.job_id) as first from asyncq._waits as edge where edge.waiter = job.id) as edges
  union all
  (select 'blocked', 'job ' || failed.id || ' has failed for good: retry that one, or cancel this one'
  from asyncq._waits as edge
  join asyncq._jobs as failed on failed.id = edge.job_id and asyncq._is_discarded(failed)
  where edge.waiter = job.id order by failed.id limit 10)
  $$;

-- The state of a job as an apposition; empty if it has ended.
create or replace function asyncq._state_of(job_id bigint) returns text
  language sql stable
  as $$
  select coalesce((
    select ', which is ' || asyncq._state(job) from asyncq._jobs as job where job.id = job_id), '')
  $$;

-- The ids of the tasks that have these names; unlike _task_ids it stores none.
create or replace function asyncq._task_ids_of(identifiers text[]) returns int[]
  language sql stable parallel safe
  as $$ select array(select task.id from asyncq._tasks as task where task.identifier = any(identifiers)) $$;
