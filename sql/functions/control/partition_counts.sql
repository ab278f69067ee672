-- For each partition and each settled gate: running, the number of its claims, and jobs, the number that its row counts
-- less the ends that no fetch has counted yet.
create or replace function asyncq._partition_counts() returns table (id bigint, running int, jobs int)
  language sql stable
  as $$
  select coalesce(claims.id, held.id), coalesce(claims.running, 0), coalesce(held.running, 0) - coalesce(ended.freed, 0)
  from (
    select counted_by.id, sum(claim.jobs)::int as running
    from (
      select job.partition, job.task_id, count(*) as jobs from asyncq._all_jobs() as job
      where job.locked_at is not null and job.partition is not null group by job.partition, job.task_id) as claim
    cross join lateral (
      select claim.partition as id
      union all
      select asyncq._gate(of_all.id) from asyncq._tasks as task join asyncq._limits as of_all on of_all.id = task.limit_id
      where task.id = claim.task_id and (of_all.total is not null or of_all.total_rate is not null)) as counted_by
    group by counted_by.id) as claims
  full join asyncq._partitions as held on held.id = claims.id
  left join (select partition, sum(freed)::int as freed from asyncq._wakeups group by partition) as ended on ended.partition = held.id
  where held.recount_since is null
  $$;
