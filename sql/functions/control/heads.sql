-- The first ready jobs of a partition: one of each task and priority, due or not, except pending ones: their release
-- wakes their partition. These are behind all others. It is inlined; each row is one probe.
create or replace function asyncq._heads(partition_id bigint) returns table (task_id int, priority smallint, run_at timestamptz, id bigint)
  language sql stable
  as $$
  with recursive head(task_id, priority, run_at, id) as (
    (select job.task_id, job.priority, job.run_at, job.id from asyncq._jobs as job
      where job.partition = partition_id and asyncq._is_ready(job)
      order by job.task_id, job.priority, job.run_at, job.id limit 1)
    union all
    select next.task_id, next.priority, next.run_at, next.id
    from head
    cross join lateral (
      select job.task_id, job.priority, job.run_at, job.id from asyncq._jobs as job
      where job.partition = partition_id and asyncq._is_ready(job)
        and (job.task_id, job.priority) > (head.task_id, head.priority)
      order by job.task_id, job.priority, job.run_at, job.id limit 1) as next)
  select head.task_id, head.priority, head.run_at, head.id from head where head.run_at < '9999-01-01 00:00:00+00'
  $$;
