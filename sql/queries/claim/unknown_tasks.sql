-- unknown_tasks(task_ids text) -> identifier text
-- Names of tasks that this worker does not know: among the first thousand jobs that wait, and of all partitions that
-- were woken for them. A bounded look, never a scan.
select distinct task.identifier
from (
  (select task_id from asyncq._jobs as job
    where job.partition is null and asyncq._is_ready(job)
    order by priority, run_at, id limit 1000)
  union all
  select task_id from asyncq._kinds()) as waiting
join asyncq._tasks as task on task.id = waiting.task_id
where task.id <> all((select $1::text::int[])::int[])
order by task.identifier
