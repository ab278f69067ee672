-- unknown_tasks(task_ids text) -> identifier text
-- Names of tasks that this worker does not know, among the first thousand jobs that wait; a bounded look, never a scan.
select distinct task.identifier
from (
  (select task_id, asyncq._is_known(job, (select $1::text::int[])) as is_known from asyncq._jobs as job
    where job.queue is null and asyncq._is_ready(job)
    order by priority, run_at, id limit 1000)
  union all
  (select task_id, asyncq._is_known(job, (select $1::text::int[])) as is_known from asyncq._jobs as job
    where job.queue is not null and asyncq._is_ready(job)
    order by priority, run_at, id limit 1000)) as waiting
join asyncq._tasks as task on task.id = waiting.task_id
where not waiting.is_known
order by task.identifier
