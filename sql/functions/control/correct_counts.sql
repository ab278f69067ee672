-- Correct the number of running jobs that partitions count, where it seems to be wrong. Their rows are locked, so no
-- claim of these partitions is made, and each end of a claim inserts a wakeup in its own transaction. Those that
-- another transaction locks are skipped. Returns the corrected ones, with the number before.
create or replace function asyncq._correct_counts() returns table (id bigint, counted int, running int)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
  set enable_sort = on
  as $$
#variable_conflict use_column
declare
  held bigint[] := array(select count.id from asyncq._partition_counts() as count where count.jobs <> count.running);
begin
  if cardinality(held) = 0 then
    return;
  end if;
  insert into asyncq._partitions (id) select given.id from unnest(held) as given(id) order by given.id on conflict do nothing;
  held := array(
    select partition.id from asyncq._partitions as partition where partition.id = any(held) order by partition.id
    for no key update skip locked);
  -- A statement of its own, whose snapshot is newer than the locks.
  return query
    with real as materialized (
      select count.id, count.jobs, count.running from asyncq._partition_counts() as count
      where count.id = any(held) and count.jobs <> count.running)
    update asyncq._partitions as partition set running = partition.running + real.running - real.jobs
    from real where partition.id = real.id
    returning real.id, real.jobs, real.running;
  perform asyncq._wake_heads(held);
end
$$;

-- Insert wakeups for partitions that have a due job, room for it, and no wakeup. That is a defect, and doctor --repair
-- calls this function. It also lets workers move the jobs of limited tasks that have no partition. Returns the number
-- of these partitions.
create or replace function asyncq._wake_stranded() returns int
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
  as $$
declare
  stranded bigint[];
begin
  with recursive ready(id) as (
    (select job.partition from asyncq._jobs as job
      where job.partition is not null and asyncq._is_ready(job) order by job.partition limit 1)
    union all
    select next.id from ready
    cross join lateral (
      select job.partition as id from asyncq._jobs as job
      where job.partition > ready.id and asyncq._is_ready(job) order by job.partition limit 1) as next)
  select array_agg(ready.id) into stranded
    from ready cross join lateral asyncq._partition_state(ready.id, asyncq.clock()) as state
    where state.reason is null
      and ready.id not in (select wakeup.partition from asyncq._wakeups as wakeup where wakeup.partition is not null);
  perform asyncq._wake_heads(stranded);
  update asyncq._tasks as task set unmoved_since = pg_current_xact_id()
    where task.limit_id is not null and task.unmoved_since is null and task.id in (
      select job.task_id from asyncq._jobs as job where job.partition is null and asyncq._is_ready(job));
  return coalesce(cardinality(stranded), 0);
end
$$;
