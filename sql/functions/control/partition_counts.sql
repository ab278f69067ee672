-- Of each partition: how many of its jobs run, how many it counts (jobs), and whether it has to count them.
create or replace function asyncq._partition_counts() returns table (id bigint, running int, jobs int, is_limited boolean)
  language sql stable
  as $$
  select coalesce(claims.partition, held.id), coalesce(claims.running, 0),
    coalesce(held.running, 0) - coalesce(ended.freed, 0), coalesce(held.at_once, of_all.at_once) is not null
  from (
    select job.partition, count(*)::int as running from asyncq._all_jobs() as job
    where job.locked_by is not null and job.partition is not null group by job.partition) as claims
  full join asyncq._partitions as held on held.id = claims.partition
  left join (select partition, sum(freed)::int as freed from asyncq._wakeups group by partition) as ended on ended.partition = held.id
  left join asyncq._limits as of_all on of_all.id = coalesce(claims.partition, held.id) >> 48
  $$;
