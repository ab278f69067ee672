-- In which states an ended job of this add has to be known: those that its unique policy names; all for a request that may be
-- made again. Null when nothing asks for that.

create or replace function asyncq._kept_states(dedupe jsonb) returns text[]
  language sql immutable
  as $$
  select case
    when dedupe ? 'request' then '{completed,cancelled,discarded}'::text[]
    when dedupe -> 'states' ?| '{completed,cancelled,discarded}' then array_remove(array[
      case when dedupe -> 'states' ? 'completed' then 'completed' end,
      case when dedupe -> 'states' ? 'cancelled' then 'cancelled' end,
      case when dedupe -> 'states' ? 'discarded' then 'discarded' end], null)
  end
  $$;
