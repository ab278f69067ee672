-- The jobs that bar an add under its unique policy: they have its key, are in one of the policy's states, and the policy's
-- period, counted from when they were created, still runs at this moment. The only place that says so.
-- It is inlined into statements that have a snapshot of their own, newer than the locks. is_row: it has a row in
-- _jobs, and is not merely remembered.
-- One probe of each index, whatever a plan was made for: no other condition than the key's is one for an index, and offset 0
-- makes it no join.

create or replace function asyncq._matches(extra jsonb, moment timestamptz)
  returns table (id bigint, state text, created_at timestamptz, run_at timestamptz, is_row boolean)
  language sql stable
  as $$
  select held.id, held.state, held.created_at, held.run_at, held.is_row
  from (
    select job.id, asyncq._state(job), job.created_at, job.run_at, true
    from asyncq._jobs as job
    where job.unique_key = decode(extra ->> 'key', 'hex')
      and not asyncq._has_failed(job)
    union all
    select job.id, 'discarded', job.created_at, job.run_at, true
    from asyncq._jobs as job
    where extra -> 'states' ? 'discarded' and job.unique_key = decode(extra ->> 'key', 'hex')
      and not asyncq._is_ready(job) and asyncq._state(job) = 'discarded'
    union all
    select ended.id, ended.state, ended.created_at, null, false
    from asyncq._ended_jobs as ended
    where extra -> 'states' ?| '{completed,cancelled,discarded}'
      and ended.unique_key = decode(extra ->> 'key', 'hex') and coalesce(ended.keep_until, 'infinity') > moment)
    as held(id, state, created_at, run_at, is_row)
  where extra -> 'states' ? held.state
    and (extra ->> 'period' is null
      or ((held.created_at at time zone 'UTC') + asyncq._period(extra ->> 'period')) at time zone 'UTC' > moment)
  offset 0
  $$;
