-- unknown_tasks(task_ids int[]) -> identifier text
-- Names of tasks that this worker does not know, among the first thousand jobs that wait; a bounded look, never a scan.
select distinct task.identifier
from (
  (select task_id from asyncq._jobs
    where queue is null and locked_by is null and attempts < max_attempts
    order by priority, run_at, id limit 1000)
  union all
  (select task_id from asyncq._jobs
    where queue is not null and locked_by is null and attempts < max_attempts
    order by priority, run_at, id limit 1000)) as waiting
join asyncq._tasks as task on task.id = waiting.task_id
where not waiting.task_id = any($1::int[])
order by task.identifier
