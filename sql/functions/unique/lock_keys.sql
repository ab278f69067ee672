-- Lock keys until the end of the transaction: callers that add or remove under one key take it one after the other, all
-- in one order. It always writes: a caller whose snapshot is older than the last add of a key gets 40001. The rows have
-- numbers, so that they are small whatever the keys are. Two keys that share a number wait for each other without need.
-- Returns the number of locked rows.
create or replace function asyncq._lock_keys(keys text[]) returns bigint
  language plpgsql volatile
  as $$
#variable_conflict use_column
declare
  locked bigint;
begin
  insert into asyncq._key_locks as held (key)
    select distinct pg_catalog.hashtextextended(given, 0) from unnest(keys) as given order by 1
    on conflict (key) do update set used_at = pg_catalog.clock_timestamp();
  get diagnostics locked = row_count;
  return locked;
end
$$;

-- Lock the keys, then the jobs that have them, so that none of these starts, ends or is rescued before the add acts.
-- These are separate statements, since the second has to see the changes for which the first waited. The jobs are
-- locked whatever the mode or strategy. Otherwise an add could find a job that is just being claimed, or is ending, and
-- lose its request to it. asks: some jobs have a key under a unique policy or an idempotency key.
-- Job keys, keys under unique policies and idempotency keys are locked apart. A discarded job is locked for its job
-- key, and for its key under a policy only if a policy looks at discarded jobs. A forced add waits for no job. Jobs
-- that are named in `after` are locked together with those, in one order.
-- Returns the state of the keys:
--   repeated   jobs of the call may share keys, or look at each other
--   taken      other jobs have keys, or ended jobs or earlier requests may have them
--   new        neither
create or replace function asyncq._lock_key_holders(jobs asyncq._new_job[], asks boolean) returns text
  language plpgsql volatile
  as $$
declare
  job_keys constant text[] := array(select job.job_key from unnest(jobs) as job where job.job_key is not null);
  keys text[];
  locked bigint;
  unique_keys bytea[];
  of_discarded bytea[];
  of_ended bytea[];
  holders bigint[];
  has_request boolean;
  waits boolean;
  is_taken boolean;
begin
  keys := array(
    select 'key:' || given from unnest(job_keys) as given
    union all
    select 'unique:' || encode(job.unique_key, 'hex') from unnest(jobs) as job where job.unique_key is not null
    union all
    select 'request:' || job.idempotency_key from unnest(jobs) as job where job.idempotency_key is not null);
  locked := asyncq._lock_keys(keys);
  select
      array_agg(given.unique_key) filter (where given.on_conflict <> 'add'),
      array_agg(given.unique_key) filter (where given.on_conflict <> 'add' and 'discarded' = any(given.states)),
      array_agg(given.unique_key) filter (where given.states && '{completed,cancelled,discarded}'),
      bool_or(given.idempotency_key is not null), bool_or(given.after is not null)
    into unique_keys, of_discarded, of_ended, has_request, waits
    from unnest(jobs) as given;
  -- Not union: to have it sorted, PostgreSQL 17 and later walk over the whole primary key if the table was empty once.
  holders := array(
    select held.id from asyncq._jobs as held where held.key = any(job_keys)
    union all
    select held.id from asyncq._jobs as held
    where held.unique_key = any(unique_keys) and not asyncq._is_discarded(held)
    union all
    select held.id from asyncq._jobs as held
    where held.unique_key = any(of_discarded) and not asyncq._is_ready(held));
  if waits then
    perform asyncq._lock_awaited(jobs, holders);
  end if;
  perform from asyncq._jobs as job where job.id = any(holders) order by job.id + 0 for no key update;
  is_taken := found or has_request
    or exists (select from asyncq._ended_jobs as ended where ended.unique_key = any(of_ended));
  return case
    when locked < cardinality(keys) then 'repeated'
    when asks and cardinality(jobs) > 1 and asyncq._mixes_keys(jobs) then 'repeated'
    when is_taken then 'taken'
    else 'new'
  end;
end
$$;
