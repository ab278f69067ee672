-- first_jobs(most int) -> id bigint
-- The first jobs that wait, in the order in which they run, as a fetch reads them. Claims none.
(select id from asyncq._jobs as job
  where job.queue is null and asyncq._is_ready(job)
  order by priority, run_at, id limit $1::int)
union all
(select id from asyncq._jobs as job
  where job.queue is not null and asyncq._is_ready(job)
  order by priority, run_at, id limit $1::int)
