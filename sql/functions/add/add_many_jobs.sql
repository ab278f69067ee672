-- The one entrance: every add except that of a single job without a key, from SQL or Python, ends here. Parallel
-- arrays, one element for each job; null is the default, also for a whole array except the first.
-- Jobs with a key are added in three steps: lock, check, act. Lock order: key locks, jobs, tasks.
-- Workers are notified at commit, once a transaction.
--
-- Returns one row: the ids of the jobs that fulfil the specs, in their order; then, for jobs that were not simply
-- added, their positions (from 1) and outcomes. Null if there are none.
--
-- An element of extras is a record of the options that have no array of their own, made by _extra or by
-- asyncq/domain/deduplication.py. A new option of a job is a new member of it. A job depends on others if it has a key
-- or a request:
--   key, states, period    its key under a unique policy (hexadecimal), and which jobs the policy looks at; states and period may be
--                          missing, for the defaults
--   on_conflict            reject, ignore, replace or replace_except_schedule; add: it has the key, but ignores other jobs
--   rerun                  (if there) when the other job runs, this request is remembered
--   request, window_s      an idempotency key, and for how long it holds
create or replace function asyncq._add_many_jobs(
  identifiers text[], payloads json[], queue_names text[], run_ats timestamptz[], max_attempts int[], job_keys text[],
  priorities int[], flags jsonb[], job_key_modes text[], metas jsonb[], extras jsonb[],
  out ids bigint[], out ords bigint[], out outcomes text[], out existing_ids bigint[], out existing_states text[])
  language plpgsql volatile
  -- Planning these statements again for each call costs more than running them. A plan that was made while the table
  -- was empty has to be right when it is full.
  set plan_cache_mode = force_generic_plan
  set enable_seqscan = off
  set search_path = pg_catalog, pg_temp
  as $$
#variable_conflict use_column
declare
  asks boolean := false;
  keys text := 'new';
begin
  if coalesce(cardinality(identifiers), 0) = 0 then
    return;
  end if;
  perform asyncq._check_jobs(
    identifiers, payloads, queue_names, run_ats, max_attempts, job_keys, priorities, job_key_modes);
  -- Two steps: an expression without a query is cheaper, and nearly all calls have no extras.
  if array_remove(extras, null) <> '{}' then
    asks := exists (select from unnest(extras) as given where given ?| '{key,request}');
  end if;
  if asks then
    keys := asyncq._lock_key_holders(job_keys, extras);
  elsif array_remove(job_keys, null) <> '{}' then
    keys := asyncq._lock_key_holders(job_keys);
  end if;
  if keys = 'new' then
    perform asyncq._store_tasks(identifiers);
    ids := asyncq._insert_jobs(
      identifiers, payloads, queue_names, run_ats, max_attempts, job_keys, priorities, flags, metas, extras, null);
  else
    select
        array_agg(done.id order by done.ord), array_agg(done.ord order by done.ord) filter (where done.is_special),
        array_agg(done.outcome order by done.ord) filter (where done.is_special),
        array_agg(done.existing_id order by done.ord) filter (where done.is_special),
        array_agg(done.existing_state order by done.ord) filter (where done.is_special)
      into ids, ords, outcomes, existing_ids, existing_states
      from (
        select held.*, held.outcome <> 'added' or held.existing_id is not null as is_special
        from asyncq._add_in_pieces(
          identifiers, payloads, queue_names, run_ats, max_attempts, job_keys, priorities, flags, job_key_modes, metas,
          extras, asks, keys) as held) as done;
  end if;
  if keys <> 'new' then
    -- The jobs themselves decide: one that existed before may run, or be due at another time than the call says. Those
    -- that were not changed count too, since a fetch has skipped them while they were locked.
    perform asyncq._wake_for(ids);
  elsif run_ats is null or array_position(run_ats, null) is not null or asyncq.clock() + interval '60 s' >= any(run_ats) then
    -- As _wake_for, without a look at the jobs.
    perform asyncq._wake_workers();
  end if;
end
$$;
