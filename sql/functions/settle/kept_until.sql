-- Until when an ended job of this add has to be known: for the period of its unique policy, if that looks at ended jobs, and
-- for as long as its request may be made again. Null when nothing asks for that.

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
