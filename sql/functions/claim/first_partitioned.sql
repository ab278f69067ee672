-- The first due jobs of a partition, of one task and priority, that a worker may claim: at most so many. It is inlined,
-- so its arguments are no subqueries.
create or replace function asyncq._first_partitioned(
  partition bigint, task_id int, priority smallint, forbidden_flags text[], moment timestamptz, most int)
  returns table (run_at timestamptz, id bigint)
  language sql stable
  as $$
  select job.run_at, job.id from asyncq._jobs as job
  where job.partition = _first_partitioned.partition and job.task_id = _first_partitioned.task_id
    and job.priority = _first_partitioned.priority
    and asyncq._is_ready(job) and asyncq._is_due(job, moment) and asyncq._is_allowed(job, forbidden_flags)
  order by job.run_at, job.id limit most
  $$;
