-- held_back(task_ids text) -> identifier text, jobs int
-- How many due jobs of a worker's tasks a limit, a rate or a pause holds back. Only the first thousand jobs that have a
-- partition and wait are looked at, also those that this worker may not run by their flags.
select task.identifier, count(*)::int as jobs
from (
  select job.task_id, asyncq._is_due(job, asyncq.now()) as is_due from asyncq._jobs as job
  where job.partition is not null and asyncq._is_ready(job)
  order by job.partition, job.task_id, job.priority, job.run_at, job.id limit 1000) as waiting
join asyncq._tasks as task on task.id = waiting.task_id
where task.id = any((select $1::text::int[])::int[]) and waiting.is_due
group by task.identifier
order by task.identifier
