-- How many jobs are due or run, counted up to `most`; never null. With tasks only theirs, estimated from a sample if
-- the table is large. For autoscaling: running jobs count, or workers would be taken away under them.
--
-- Jobs of limits and queues are counted among the first 20,000 that wait, and at least one for each wakeup that is
-- due: if one of them can start, the result is not 0.
create or replace function asyncq.backlog(tasks text[] default null, most int default 10000) returns bigint
  language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
  set enable_bitmapscan = off
  set jit = off
  as $$
declare
  moment constant timestamptz := asyncq.now();
  counted bigint;
  from_priority int := -32768;
begin
  if tasks is not null then
    return (
      select least(most, coalesce(sum(held.due + held.running), 0)) from asyncq.depths_by() as held where held.task = any(tasks));
  end if;
  counted := (select coalesce(sum(bit_count(batch.unsettled)), 0) from asyncq._batches as batch)
    + (select count(*) from (select from asyncq._jobs as job where job.locked_at is not null limit most) as running);
  while counted < most loop
    from_priority := (
      select job.priority from asyncq._jobs as job
      where job.partition is null and asyncq._is_ready(job) and job.priority >= from_priority order by job.priority limit 1);
    exit when from_priority is null;
    counted := counted + (
      select count(*) from (
        select from asyncq._jobs as job
        where job.partition is null and asyncq._is_ready(job) and job.priority = from_priority and asyncq._is_due(job, moment)
        limit most - counted) as due);
    from_priority := from_priority + 1;
  end loop;
  if counted < most then
    counted := counted + greatest(
      (select count(*) from (
        select asyncq._is_due(job, moment) as is_due from asyncq._jobs as job
        where job.partition is not null and asyncq._is_ready(job) limit 20000) as first
        where first.is_due),
      (select count(*) from (select from asyncq._wakeups as wakeup where wakeup.at <= moment and wakeup.job_id > 0 limit most) as due));
  end if;
  return least(counted, most);
end
$$;

-- How many seconds the oldest due job has waited; null: no job is due. It is the first one of each priority. Of limits
-- and queues those are considered that could start a job or run one, at most 500, and of each the first 20 jobs.
create or replace function asyncq.oldest_due() returns float8
  language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
  set enable_bitmapscan = off
  set jit = off
  as $$
declare
  moment constant timestamptz := asyncq.now();
  oldest timestamptz;
  first record;
  from_priority int := -32768;
begin
  loop
    select job.priority, job.run_at into first
      from asyncq._jobs as job
      where job.partition is null and asyncq._is_ready(job) and job.priority >= from_priority
      order by job.priority, job.run_at limit 1;
    exit when not found;
    oldest := least(oldest, first.run_at);
    from_priority := first.priority + 1;
  end loop;
  oldest := least(oldest, (
    select min(waiting.run_at)
    from (
      (select distinct wakeup.partition from (select partition from asyncq._wakeups limit 10000) as wakeup limit 500)
      union
      select running.partition from (
        select job.partition from asyncq._jobs as job where job.locked_at is not null and job.partition is not null limit 500) as running) as one
    cross join lateral (
      select job.run_at from asyncq._jobs as job
      where job.partition = one.partition and asyncq._is_ready(job)
      order by job.task_id, job.priority, job.run_at limit 20) as waiting));
  return case when oldest <= moment then extract(epoch from moment - oldest)::float8 end;
end
$$;
