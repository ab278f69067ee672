-- How many jobs are in each state. In a large table a sample estimates the waiting jobs, unless exact is true: then all
-- of it is read. is_exact: the figures are no estimates. paused: how many of the available jobs wait for the end of a
-- pause; 0 in other states. A state without a row has no jobs.
create or replace function asyncq.counts(exact boolean default false)
  returns table (state text, jobs bigint, is_exact boolean, paused bigint)
  language sql volatile security definer
  set search_path = pg_catalog, pg_temp
  as $$ select counted.state, counted.jobs, counted.is_exact, counted.paused from asyncq._counts(exact) as counted $$;

-- The work of counts. A table of up to most_bytes is read, a larger one only for exact figures. Otherwise a sample of
-- 20,000 rows estimates how many wait; it has the same pages in the next call, so that the figures do not jump.
-- Running jobs and discarded ones are counted by their indexes, up to 20,000 of each. Above that they are estimated
-- too: running ones as the greater of the sample and of what live workers named at their last beat. The sample may miss
-- the jobs of a paused queue or key, which may be few: the first 2,000 of such jobs are the minimum.
create or replace function asyncq._counts(exactly boolean, most_bytes bigint default 8388608)
  returns table (state text, jobs bigint, is_exact boolean, paused bigint)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  -- Compiling the statement would take longer than to run it.
  set jit = off
  as $$
#variable_conflict use_column
declare
  percent constant float8 := asyncq._sample_percent(20000);
  few constant int := 20000;
  counted text[] := '{}';
  batched bigint;
  discarded bigint;
  held bigint;
  cancelled bigint;
  -- What is paused: all jobs, those of these tasks, those of these partitions.
  everything constant boolean := exists (select from asyncq._limits as held where held.id = 0 and held.paused_at is not null);
  tasks constant int[] := array(
    select task.id from asyncq._tasks as task left join asyncq._limits as held on held.id = task.limit_id
    where task.paused_at is not null or held.paused_at is not null);
  partitions constant bigint[] := array(select held.id from asyncq._partitions as held where held.paused_at is not null);
begin
  if exactly or pg_relation_size('asyncq._jobs') <= most_bytes then
    return query
      select asyncq._state(job), count(*), true, count(*) filter (where asyncq._state(job) = 'available' and (everything
        or job.task_id in (select unnest(tasks)) or (job.partition in (select unnest(partitions))) is true))
      from asyncq._all_jobs() as job group by 1;
    return;
  end if;
  batched := (select coalesce(sum(bit_count(batch.unsettled)), 0) from asyncq._batches as batch);
  select count(*) into discarded from (select from asyncq._jobs as job where asyncq._is_discarded(job) limit few) as first;
  if discarded < few then
    counted := '{discarded}';
    return query select 'discarded', discarded, true, 0::bigint;
  end if;
  select count(*), count(first.cancelled_at) into held, cancelled
    from (select job.cancelled_at from asyncq._jobs as job where job.locked_at is not null limit few) as first;
  if held < few then
    counted := counted || '{active,cancelled}';
    return query values ('active', batched + held - cancelled, true, 0::bigint), ('cancelled', cancelled, true, 0::bigint);
  end if;
  -- A state that the sample has missed need not be empty: it gets a row too.
  return query
    select estimated.state, case estimated.state
        when 'active' then greatest(
          coalesce(sampled.jobs, 0) + batched, held - cancelled + batched,
          (select coalesce(sum(cardinality(worker.started_claims)), 0)::bigint from asyncq._workers as worker where asyncq._is_live(worker)))
        when 'discarded' then greatest(coalesce(sampled.jobs, 0), discarded)
        when 'available' then greatest(coalesce(sampled.jobs, 0), surely.paused)
        else coalesce(sampled.jobs, 0) end,
      false, case estimated.state when 'available' then greatest(coalesce(sampled.paused, 0), surely.paused) else 0 end
    from unnest('{scheduled,available,active,retryable,pending,cancelled,discarded}'::text[]) as estimated(state)
    cross join (
      select count(*) filter (where first.is_due) as paused
      from (
        select job.is_due from unnest(partitions) as partition_id
        cross join lateral (
          select asyncq._is_due(waiting, asyncq.now()) as is_due from asyncq._jobs as waiting
          where waiting.partition = partition_id and asyncq._is_ready(waiting) limit 2000) as job
        limit 2000) as first) as surely
    left join (
      select asyncq._state(job) as state, round(count(*) * 100 / percent)::bigint as jobs,
        round(count(*) filter (where everything or job.task_id in (select unnest(tasks))
          or (job.partition in (select unnest(partitions))) is true) * 100 / percent)::bigint as paused
      from asyncq._jobs as job tablesample system (percent) repeatable (0) group by 1) as sampled using (state)
    where estimated.state <> all(counted);
end
$$;
