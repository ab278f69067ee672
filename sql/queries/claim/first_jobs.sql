-- first_jobs(most int) -> id bigint
-- The first jobs that wait, and the first partitions that were woken, in the order in which a fetch reads them. Claims
-- none.
(select id from asyncq._jobs as job
  where job.partition is null and asyncq._is_ready(job)
  order by priority, run_at, id limit $1::int)
union all
(select partition from asyncq._wakeups order by task_id, priority, at limit $1::int)
