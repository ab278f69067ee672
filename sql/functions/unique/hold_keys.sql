-- Gate and check: pass the gates of the keys, then lock the jobs that hold them, so that none starts, ends or is rescued
-- before the act. Each is a statement of its own: what was waited for is seen by the next. The holders are locked whatever
-- the mode or strategy: one that merely looks would drop a request for a job that is being taken, or has just ended.
-- Job keys, keys under unique policies and idempotency keys have gates of their own kinds; of a discarded job
-- the last two are not held, unless a policy looks at such jobs. A forced add waits for no holder.
-- Returns what the act has to heed: jobs of the call may meet each other ('repeated' keys, mostly); the keys are 'taken':
-- other jobs have them, or may be remembered; or neither ('new').

create or replace function asyncq._hold_keys(job_keys text[], extras jsonb[] default null) returns text
  language plpgsql volatile
  as $$
declare
  keys text[] := array(select 'key:' || given from unnest(job_keys) as given where given is not null);
  passed bigint;
  unique_keys bytea[];
  watched bytea[];
  is_held boolean;
begin
  if extras is null then
    passed := asyncq._gate(keys);
    perform from asyncq._jobs as job where job.key = any(job_keys) order by job.id + 0 for no key update;
    is_held := found;
  else
    select
        keys || coalesce(array_agg('unique:' || (given ->> 'key')) filter (where given ? 'key'), '{}')
          || coalesce(array_agg('request:' || (given ->> 'request')) filter (where given ? 'request'), '{}'),
        array_agg(decode(given ->> 'key', 'hex')) filter (where given ->> 'on_conflict' <> 'add'),
        array_agg(decode(given ->> 'key', 'hex'))
          filter (where given ->> 'on_conflict' <> 'add' and given -> 'states' ? 'discarded')
      into keys, unique_keys, watched
      from unnest(extras) as given;
    passed := asyncq._gate(keys);
    -- Not union: to have it sorted, PostgreSQL 17 and later walk over the whole primary key if the table was empty once.
    perform from asyncq._jobs as job
      where job.id = any(array(
        select held.id from asyncq._jobs as held where held.key = any(job_keys)
        union all
        select held.id from asyncq._jobs as held
        where held.unique_key = any(unique_keys) and not asyncq._has_failed(held)
        union all
        select held.id from asyncq._jobs as held
        where held.unique_key = any(watched) and not asyncq._is_ready(held)))
      order by job.id + 0 for no key update;
    is_held := found or asyncq._looks_back(extras);
  end if;
  return case
    when passed < cardinality(keys) then 'repeated'
    when coalesce(cardinality(extras), 0) > 1 and asyncq._mixes_keys(job_keys, extras) then 'repeated'
    when is_held then 'taken'
    else 'new'
  end;
end
$$;
