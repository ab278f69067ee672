-- In which states an ended job of this add has to be known: those that its unique policy names; all for a request that may be
-- made again. Null when nothing asks for that.

create or replace function asyncq._kept_states(extra jsonb) returns text[]
  language sql immutable
  as $$
  select case
    when extra ? 'request' then '{completed,cancelled,discarded}'::text[]
    when extra -> 'states' ?| '{completed,cancelled,discarded}' then array_remove(array[
      case when extra -> 'states' ? 'completed' then 'completed' end,
      case when extra -> 'states' ? 'cancelled' then 'cancelled' end,
      case when extra -> 'states' ? 'discarded' then 'discarded' end], null)
  end
  $$;
