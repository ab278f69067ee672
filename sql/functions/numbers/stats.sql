-- The ends of runs over time: a row for each step and task, of one task, or of all as one (of_task => '').
-- The plan is made for the arguments: one for any arguments sorts all rows.
-- took and waited are numbers of timed runs: below 1, 2, 4, .. 2^18 milliseconds, and the rest. took_s and waited_s are
-- the sums of their times.
create or replace function asyncq.stats(
  since timestamptz default null, step interval default '1 min', of_task text default null)
  returns table (
    at timestamptz, task text, completed bigint, retried bigint, discarded bigint, cancelled bigint, snoozed bigint,
    took_s float8, waited_s float8, took bigint[], waited bigint[])
  language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp
  set plan_cache_mode = force_custom_plan
  set enable_seqscan = off
  set jit = off
  as $$
#variable_conflict use_column
begin
  return query
  select summed.at, task.identifier, summed.completed, summed.retried, summed.discarded, summed.cancelled, summed.snoozed,
    summed.took_s, summed.waited_s, summed.took, summed.waited
  from (
    select date_bin(step, counted.at, '2000-01-01 00:00:00+00') as at, case when of_task = '' then null else counted.task_id end as task_id,
      sum(counted.completed) as completed, sum(counted.retried) as retried, sum(counted.discarded) as discarded,
      sum(counted.cancelled) as cancelled, sum(counted.snoozed) as snoozed, sum(counted.took_s) as took_s,
      sum(counted.waited_s) as waited_s, array[
      sum(counted.took[1]), sum(counted.took[2]), sum(counted.took[3]), sum(counted.took[4]), sum(counted.took[5]), sum(counted.took[6]), sum(counted.took[7]),
      sum(counted.took[8]), sum(counted.took[9]), sum(counted.took[10]), sum(counted.took[11]), sum(counted.took[12]), sum(counted.took[13]), sum(counted.took[14]),
      sum(counted.took[15]), sum(counted.took[16]), sum(counted.took[17]), sum(counted.took[18]), sum(counted.took[19]), sum(counted.took[20])] as took, array[
      sum(counted.waited[1]), sum(counted.waited[2]), sum(counted.waited[3]), sum(counted.waited[4]), sum(counted.waited[5]), sum(counted.waited[6]), sum(counted.waited[7]),
      sum(counted.waited[8]), sum(counted.waited[9]), sum(counted.waited[10]), sum(counted.waited[11]), sum(counted.waited[12]), sum(counted.waited[13]), sum(counted.waited[14]),
      sum(counted.waited[15]), sum(counted.waited[16]), sum(counted.waited[17]), sum(counted.waited[18]), sum(counted.waited[19]), sum(counted.waited[20])] as waited
    from asyncq._stats as counted
    where counted.at >= coalesce(since, asyncq.clock() - interval '1 h')
      and (of_task is null or of_task = '' or counted.task_id = (select named.id from asyncq._tasks as named where named.identifier = of_task))
    group by 1, 2) as summed
  left join asyncq._tasks as task on task.id = summed.task_id
  order by summed.at, task.identifier;
end
$$;

-- A quantile of took or waited of stats, in seconds; null: no run was timed. It is the upper bound of a bucket, which
-- may be twice as much as the value.
create or replace function asyncq.quantile(buckets bigint[], part float8) returns float8
  language sql immutable parallel safe
  set search_path = pg_catalog, pg_temp
  as $$
  select 2 ^ (summed.ord - 1) / 1000
  from (
    select bucket.ord, sum(bucket.runs) over (order by bucket.ord) as until, sum(bucket.runs) over () as total
    from unnest(buckets) with ordinality as bucket(runs, ord)) as summed
  where summed.total > 0 and summed.until >= summed.total * part
  order by summed.ord limit 1
  $$;

-- The numbers of jobs over time: the mean of each step.
create or replace function asyncq.depths(since timestamptz default null, step interval default '1 min')
  returns table (at timestamptz, scheduled bigint, available bigint, active bigint, retryable bigint, discarded bigint, oldest_s float8,
    workers float8, slots float8, busy float8)
  language sql volatile security definer
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
  set jit = off
  as $$
  select date_bin(step, seen.at, '2000-01-01 00:00:00+00'), avg(seen.scheduled)::bigint, avg(seen.available)::bigint,
    avg(seen.active)::bigint, avg(seen.retryable)::bigint, avg(seen.discarded)::bigint, max(seen.oldest_s),
    avg(seen.workers)::float8, avg(seen.slots)::float8, avg(seen.busy)::float8
  from asyncq._depths as seen
  where seen.at >= coalesce(since, asyncq.clock() - interval '1 h')
  group by 1 order by 1
  $$;
