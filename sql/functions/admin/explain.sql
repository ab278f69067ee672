-- Why a job does not run: a row for each reason, in order. It uses the conditions of a fetch. A job that is unknown has
-- no reason; a job that waits for nothing has the one reason 'ready'.
--
--   reason          what it waits for
--   ended           it has ended, and was kept
--   running         nothing: it runs, or its worker has died and will be rescued
--   cancelled       its handler, which still runs
--   last_attempt    (it runs, and will not be tried again)
--   failed          it is discarded: it has to be retried by hand
--   expired         nothing: it has expired, and the next fetch or round of maintenance ends it as cancelled
--   paused          the end of a pause: of its task, its queue, its limit or key, or of everything
--   not_due         its time, or the time of its retry
--   no_worker       a worker
--   unknown_task    a worker that knows its task
--   forbidden_flag  a worker that does not forbid its flags
--   queue_busy      the job of its queue that runs
--   queue_behind    an earlier job of its queue
--   moving          its task has got another limit: workers move it into its partition
--   backed_off      a time, as a handler asked for its queue or key
--   rate            a time: as many jobs have started as the rate allows
--   partition_full  the end of a job of its key, or of its limit
--   partition_behind  an earlier job of its key
--   ready           a free slot: the next fetch takes it, after the jobs before it
create or replace function asyncq.explain(job_id bigint) returns table (reason text, detail text)
  language plpgsql stable
  set search_path = pg_catalog, pg_temp
  -- The texts contain times, which must not depend on the settings of the session.
  set timezone = 'UTC'
  set datestyle = 'ISO, YMD'
  set intervalstyle = 'postgres'
  as $$
declare
  moment constant timestamptz := asyncq.now();
  job asyncq._jobs;
  -- Workers that live; of these, those that know the task; of these, those that do not forbid a flag of the job.
  live int[];
  knowing int[];
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

  select array_agg(worker.id order by worker.id),
      array_agg(worker.id order by worker.id) filter (where tasks.known),
      array_agg(worker.id order by worker.id) filter (where tasks.known and asyncq._is_allowed(job, worker.forbidden_flags))
    into live, knowing, able
    from asyncq._workers as worker
    cross join lateral (select asyncq._is_known(job, asyncq._task_ids_of(worker.tasks)) as known) as tasks
    where asyncq._is_live(worker);
  if live is null then
    return query select 'no_worker', 'no worker is alive';
  elsif knowing is null then
    return query select 'unknown_task',
      'no live worker knows the task ' || task.identifier || '; alive: ' || array_to_string(live, ', ')
      from asyncq._tasks as task where task.id = job.task_id;
  elsif able is null then
    return query select 'forbidden_flag',
      'every live worker that knows its task forbids one of its flags: ' || string_agg(distinct flag.name, ', ')
      from asyncq._workers as worker, unnest(worker.forbidden_flags) as flag(name)
      where worker.id = any(knowing) and job.flags ? flag.name;
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

-- The part of explain for limits: of the queue or key of a ready job, and of all jobs of its limit. A pause is said
-- before.
create or replace function asyncq._explain_partition(job asyncq._jobs, able int[], moment timestamptz)
  returns table (reason text, detail text)
  language plpgsql stable
  as $$
declare
  kind constant text := case when job.queue is not null then 'queue' else 'key' end;
  task asyncq._tasks := (select known from asyncq._tasks as known where known.id = job.task_id);
  state record;
  runs record;
  of_all record;
  ahead bigint;
begin
  if task.unmoved_since is not null and job.partition is distinct from asyncq._partition_of(job.task_id, job.queue, job.payload) then
    return query select 'moving', 'its task has got another limit, and workers are moving its jobs into their partitions';
    return;
  elsif job.partition is null then
    return;
  end if;
  select partition.* into state from asyncq._partition_state(job.partition, moment, 0) as partition;
  select count(*)::int as jobs, string_agg(claim.id::text, ', ') filter (where claim.number <= 10) as ids,
      string_agg(distinct claim.locked_by::text, ', ') filter (where claim.number <= 10) as workers,
      min(claim.locked_at) as since
    into runs
    from (
      select running.id, running.locked_by, running.locked_at, row_number() over (order by running.id) as number
      from asyncq._all_jobs() as running
      -- No index has the partitions of claims: without one that counts, none is read.
      where state.running > 0 and running.locked_at is not null and running.partition = job.partition
      order by running.id) as claim;
  if state.reason in ('backed_off', 'rate') then
    return query select state.reason, 'no job of its ' || kind || ' may start before ' || state.next_at
      || case state.reason when 'rate' then ': as many have started as its rate allows' else ', as a handler asked' end;
  end if;
  if runs.jobs >= state.may then
    return query select case kind when 'queue' then 'queue_busy' else 'partition_full' end,
      case when state.may = 1
        then 'job ' || runs.ids || ' of its ' || kind || ' runs, on worker ' || runs.workers || ' since ' || runs.since
        else runs.jobs || ' of ' || state.may || ' jobs of its ' || kind || ' run: ' || runs.ids || case when runs.jobs > 10 then ', ...' else '' end
          || ', on workers ' || runs.workers end;
  end if;
  select held.name, held.total, held.total_rate, held.total_per_s, gate.running - coalesce(ended.freed, 0) as running, gate.cell,
      gate.cells, gate.not_before
    into of_all
    from asyncq._limits as held
    join asyncq._partitions as gate on gate.id = asyncq._gate(held.id)
    left join lateral (
      select sum(wakeup.freed) as freed from asyncq._wakeups as wakeup where wakeup.partition = gate.id and wakeup.freed > 0) as ended on true
    where held.id = task.limit_id;
  if of_all.running >= of_all.total then
    return query select 'partition_full', of_all.running || ' of ' || of_all.total || ' jobs of the limit ' || of_all.name || ' run';
  end if;
  if asyncq._allowance(of_all.total_rate, of_all.total_per_s, of_all.cell, of_all.cells, moment) <= 0 then
    return query select 'rate', 'no job of the limit ' || of_all.name || ' may start before '
      || asyncq._allowed_at(of_all.total_per_s, of_all.cell, of_all.cells, moment) || ': as many have started as its rate allows';
  end if;
  if runs.jobs < state.may and able is not null then
    -- Only if as many jobs as may start come first, for every worker that may take this one.
    select min(taker.first) into ahead
      from (
        select earlier.first, earlier.jobs >= state.may - runs.jobs as is_behind
        from unnest(able) as worker_id
        join asyncq._workers as worker on worker.id = worker_id
        cross join lateral (
          select count(*) as jobs, (array_agg(before.id order by before.priority, before.run_at, before.id))[1] as first
          from asyncq._heads(job.partition) as head
          cross join lateral (
            select other.id, other.priority, other.run_at from asyncq._jobs as other
            where other.partition = job.partition and other.task_id = head.task_id and other.priority = head.priority
              and asyncq._is_ready(other) and asyncq._is_due(other, moment)
              and asyncq._is_known(other, asyncq._task_ids_of(worker.tasks))
              and asyncq._is_allowed(other, worker.forbidden_flags)
              and (other.priority, other.run_at, other.id) < (job.priority, job.run_at, job.id)
            order by other.run_at, other.id limit state.may - runs.jobs) as before) as earlier) as taker
      having bool_and(taker.is_behind);
    if ahead is not null then
      return query select case kind when 'queue' then 'queue_behind' else 'partition_behind' end,
        'job ' || ahead || ' of its ' || kind || ' comes first';
    end if;
  end if;
end
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

-- The ids of the tasks that have these names; unlike _task_ids it stores none.
create or replace function asyncq._task_ids_of(identifiers text[]) returns int[]
  language sql stable parallel safe
  as $$ select array(select task.id from asyncq._tasks as task where task.identifier = any(identifiers)) $$;
