-- next_due(since_s float8, now timestamptz, after_priority int2, after_run_at timestamptz, after_id bigint, worker int, slot_token bigint) -> delay_s float8, is_taken bool
-- Seconds until the first job that became due less than since_s ago, or will; null if there is none. since_s covers the
-- time since the last fetch was sent: a worker must not sleep if a job became due in between. Jobs without a partition
-- that are before the cursor of that fetch do not count. is_taken: the worker's hand-off slot was filled, so that a
-- message about the job is on its way, or was lost. Paused jobs do not count, nor those of a limit whose total or rate
-- is used up.
with recursive
plain(priority) as (
  (select priority from asyncq._jobs as job
    where job.partition is null and asyncq._is_ready(job)
      and (priority, run_at, id)
        > (coalesce($3, (-32768)::int2), coalesce($4, '-infinity'::timestamptz), coalesce($5, 0::bigint))
    order by priority, run_at, id limit 1)
  union all
  select further.priority from plain cross join lateral (
    select priority from asyncq._jobs as job
    where job.partition is null and asyncq._is_ready(job) and priority > plain.priority
    order by priority limit 1) as further)
select extract(epoch from min(next.run_at) - coalesce($2::timestamptz, asyncq.now()))::float8 as delay_s,
  exists (select from asyncq._handoff_slots where worker_id = $6 and token = $7)
    and not exists (select from asyncq._batches where locked_by = $6 and lock_token = $7 and ids = '{}') as is_taken
from (
  select due.run_at from plain cross join lateral (
    select run_at from asyncq._jobs as job
    where job.partition is null and asyncq._is_ready(job) and priority = plain.priority
      and not asyncq._is_due(job, coalesce($2::timestamptz, asyncq.now()) - make_interval(secs => coalesce($1::float8, 6e10)))
    order by run_at, id limit 1) as due
  union all
  select woken.at from asyncq._kinds() as kinds cross join lateral (
    select at from asyncq._wakeups as wakeup
    where wakeup.task_id = kinds.task_id and wakeup.priority = kinds.priority
      -- Those of a gate have a negative number. An end waits there for the next fetch of its tasks, and asks for none.
      and wakeup.at > coalesce($2::timestamptz, asyncq.now())
        - make_interval(secs => coalesce($1::float8, case when kinds.task_id < 0 then 0 else 6e10 end))
    order by at limit 1) as woken
  where not exists (
      select from asyncq._tasks as task left join asyncq._limits as of_all on of_all.id = task.limit_id
      where task.id = kinds.task_id and (task.paused_at is not null or of_all.paused_at is not null or exists (
        select from asyncq._partitions as gate
        where gate.id = case when of_all.total is not null or of_all.total_rate is not null then asyncq._gate(of_all.id) end
          and (gate.not_before > coalesce($2::timestamptz, asyncq.now())
            or asyncq._allowance(of_all.total_rate, of_all.total_per_s, gate.cell, gate.cells, coalesce($2::timestamptz, asyncq.now())) <= 0
            or exists (select from asyncq._full_gate(gate.id, of_all.total, coalesce($2::timestamptz, asyncq.now()))))))
      offset 0)
    and not exists (
      select from asyncq._limits as held
      where held.id = case when kinds.task_id < 0 then -kinds.task_id end and held.paused_at is not null offset 0)
) as next
where not exists (select from asyncq._limits as everything where everything.id = 0 and everything.paused_at is not null)
