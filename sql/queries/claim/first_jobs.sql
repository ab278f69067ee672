-- first_jobs(most int) -> id bigint
-- The first jobs that wait, in the order in which they run: what a fetch walks over before it takes one. Takes none.
(select id from asyncq._jobs as job
  where job.queue is null and asyncq._is_ready(job)
  order by priority, run_at, id limit $1::int)
union all
(select id from asyncq._jobs as job
  where job.queue is not null and asyncq._is_ready(job)
  order by priority, run_at, id limit $1::int)
