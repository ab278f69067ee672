-- The gate of a limit with a total, if as many of its claims run as may at a moment: no job behind it can start. Ends
-- count as by a fetch. A gate that each fetch counts is never full here. Without a gate there is no row. It is inlined.
create or replace function asyncq._full_gate(gate bigint, total int, moment timestamptz) returns table (id bigint)
  language sql stable
  as $$
  select held.id from asyncq._partitions as held
  where held.id = gate and held.recount_since is null and held.running - total >= (
    select coalesce(sum(ended.freed), 0) from asyncq._wakeups as ended
    where ended.task_id = -(gate >> 48)::int and ended.priority = 0 and ended.at <= moment)
  $$;
