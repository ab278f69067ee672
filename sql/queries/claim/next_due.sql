-- next_due(since_s float8, now timestamptz, after_priority int2, after_run_at timestamptz, after_id bigint, worker int, slot_token bigint) -> delay_s float8, is_taken bool
-- Seconds until the first job that became due less than since_s ago, or will; null if there is none. since_s covers the
-- time since the last fetch was sent: a worker must not sleep if a job became due in between. Jobs without a queue that
-- are before the cursor of that fetch do not count. is_taken: the worker's hand-off slot was filled, so that a message
-- about the job is on its way, or was lost.
with recursive
unqueued(priority) as (
  (select priority from asyncq._jobs as job
    where job.queue is null and asyncq._is_ready(job)
      and (priority, run_at, id)
        > (coalesce($3, (-32768)::int2), coalesce($4, '-infinity'::timestamptz), coalesce($5, 0::bigint))
    order by priority, run_at, id limit 1)
  union all
  select further.priority from unqueued cross join lateral (
    select priority from asyncq._jobs as job
    where job.queue is null and asyncq._is_ready(job) and priority > unqueued.priority
    order by priority limit 1) as further),
queued(priority) as (
  (select priority from asyncq._jobs as job
    where job.queue is not null and asyncq._is_ready(job)
    order by priority limit 1)
  union all
  select further.priority from queued cross join lateral (
    select priority from asyncq._jobs as job
    where job.queue is not null and asyncq._is_ready(job) and priority > queued.priority
    order by priority limit 1) as further)
select extract(epoch from min(next.run_at) - coalesce($2::timestamptz, asyncq.now()))::float8 as delay_s,
  exists (select from asyncq._handoff_slots where worker_id = $6 and token = $7)
    and not exists (select from asyncq._batches where locked_by = $6 and lock_token = $7 and ids = '{}') as is_taken
from (
  select due.run_at from unqueued cross join lateral (
    select run_at from asyncq._jobs as job
    where job.queue is null and asyncq._is_ready(job) and priority = unqueued.priority
      and not asyncq._is_due(job, coalesce($2::timestamptz, asyncq.now()) - make_interval(secs => coalesce($1::float8, 6e10)))
    order by run_at, id limit 1) as due
  union all
  select due.run_at from queued cross join lateral (
    select run_at from asyncq._jobs as job
    where job.queue is not null and asyncq._is_ready(job) and priority = queued.priority
      and not asyncq._is_due(job, coalesce($2::timestamptz, asyncq.now()) - make_interval(secs => coalesce($1::float8, 6e10)))
    order by run_at, id limit 1) as due
) as next
