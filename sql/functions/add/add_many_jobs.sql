-- Add jobs. Every add from SQL or Python calls this, except that of a single job without a key.
-- Jobs with a key are added in three steps: lock, check, act. Lock order: key locks, jobs, tasks. Jobs that others wait
-- for are locked with those that have the keys.
-- Workers are notified at commit, once a transaction.
--
-- Returns one row. ids are the jobs that fulfil the requests, in their order. The other arrays describe the jobs that
-- were not simply added, with their positions (from 1) in ords. They are null if there are none.
create or replace function asyncq._add_many_jobs(
  jobs asyncq._new_job[],
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
  -- Whether a job has a key under a unique policy or an idempotency key; and whether one has a job key.
  asks boolean;
  has_job_keys boolean;
  -- Whether one waits for other jobs.
  waits boolean;
  keys text := 'new';
begin
  if coalesce(cardinality(jobs), 0) = 0 then
    return;
  end if;
  perform asyncq._check_jobs(jobs);
  select bool_or(job.unique_key is not null or job.idempotency_key is not null), bool_or(job.job_key is not null),
      bool_or(job.after is not null)
    into asks, has_job_keys, waits
    from unnest(jobs) as job;
  if (asks or has_job_keys) and exists (select from unnest(jobs) as job where 0 > any(job.after)) then
    raise exception using errcode = 'GWBAF', column = 'after',
      message = 'a job of a workflow goes without job_key, unique, singleton and idempotency_key';
  end if;
  if asks or has_job_keys then
    keys := asyncq._lock_key_holders(jobs, asks);
  elsif waits then
    perform asyncq._lock_awaited(jobs, '{}');
  end if;
  if keys = 'new' then
    perform asyncq._store_tasks(array_agg(job.identifier)) from unnest(jobs) as job;
    ids := asyncq._insert_jobs(jobs);
  else
    select
        array_agg(done.id order by done.ord), array_agg(done.ord order by done.ord) filter (where done.is_special),
        array_agg(done.outcome order by done.ord) filter (where done.is_special),
        array_agg(done.existing_id order by done.ord) filter (where done.is_special),
        array_agg(done.existing_state order by done.ord) filter (where done.is_special)
      into ids, ords, outcomes, existing_ids, existing_states
      from (
        select held.*, held.outcome <> 'added' or held.existing_id is not null as is_special
        from asyncq._add_in_pieces(jobs, asks, keys) as held) as done;
  end if;
  -- The jobs themselves decide: one that existed before may run, or be due at another time than the call says. Those
  -- that were not changed count too, since a fetch has skipped them while they were locked.
  perform asyncq._wake_for(ids);
end
$$;
