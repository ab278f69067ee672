-- The tasks and priorities that have wakeups, by one index probe each, in order. It is inlined.
create or replace function asyncq._kinds() returns table (task_id int, priority smallint)
  language sql stable
  as $$
  with recursive kind(task_id, priority) as (
    (select wakeup.task_id, wakeup.priority from asyncq._wakeups as wakeup order by wakeup.task_id, wakeup.priority limit 1)
    union all
    select further.task_id, further.priority
    from kind
    cross join lateral (
      select wakeup.task_id, wakeup.priority from asyncq._wakeups as wakeup
      where (wakeup.task_id, wakeup.priority) > (kind.task_id, kind.priority)
      order by wakeup.task_id, wakeup.priority limit 1) as further)
  select kind.task_id, kind.priority from kind
  $$;

-- Those for a worker that knows these tasks: no task or limit is paused. Each has the gate of its task, and the total
-- of the limit; null: the limit has no total. It is inlined, so its argument is no subquery.
create or replace function asyncq._woken_kinds(task_ids int[])
  returns table (task_id int, priority smallint, gate bigint, total int, total_rate int, total_per_s float8)
  language sql stable
  as $$
  select kind.task_id, kind.priority, known.gate, known.total, known.total_rate, known.total_per_s
  from asyncq._kinds() as kind
  cross join lateral (
    select case when of_all.total is not null or of_all.total_rate is not null then asyncq._gate(of_all.id) end as gate,
      of_all.total, of_all.total_rate, of_all.total_per_s
    from asyncq._tasks as task
    left join asyncq._limits as of_all on of_all.id = task.limit_id
    where task.id = kind.task_id and task.paused_at is null and of_all.paused_at is null offset 0) as known
  where exists (select from unnest(task_ids) as known_here(id) where known_here.id = kind.task_id)
    and not exists (select from asyncq._limits as everything where everything.id = 0 and everything.paused_at is not null)
  $$;
