-- Until when an ended job of this add has to be kept: for the period of its unique policy, if that looks at ended jobs,
-- and for the window of its idempotency key. Null if nothing asks for that.
create or replace function asyncq._kept_until(extra jsonb, created_at timestamptz) returns timestamptz
  language sql stable
  as $$
  select greatest(
    case when extra -> 'states' ?| '{completed,cancelled,discarded}' then
      coalesce(
        ((created_at at time zone 'UTC') + asyncq._period(extra ->> 'period')) at time zone 'UTC', 'infinity')
    end,
    created_at + make_interval(secs => (extra ->> 'window_s')::float8))
  $$;

-- In which end states a job of this add has to be kept: those that its unique policy names; all for an idempotency key.
-- Null if nothing asks for that.
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
