-- Remove the job of a key. A waiting or discarded job is deleted. A running one loses its key and its attempts, so that
-- it is not tried or run again; the row that is returned is locked then. Its failed attempts are removed, except one of
-- a run that has not ended yet. Null if no job has the key.
create or replace function asyncq.remove_job(job_key text) returns asyncq.jobs
  language sql strict volatile
  set search_path = pg_catalog, pg_temp
  as $$ select (removed.shown).* from asyncq._remove_job(job_key) as removed $$;

-- The work of remove_job. Lock, check, act, as in an add: it waits for an add of the key.
create or replace function asyncq._remove_job(job_key text) returns table (shown asyncq.jobs, document text)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set plan_cache_mode = force_generic_plan
  set enable_seqscan = off
  as $$
#variable_conflict use_column
declare
  holder asyncq._jobs;
begin
  perform asyncq._lock_keys(array['key:' || job_key]);
  select held.* into holder from asyncq._jobs as held where held.key = job_key for no key update;
  if holder.id is null then
    return;
  end if;
  if holder.locked_by is not null then
    update asyncq._jobs as held
      set key = null, attempts = held.max_attempts, attempts_made = coalesce(held.attempts_made, held.attempts), rerun = null,
        updated_at = asyncq.now()
      where held.id = holder.id;
  end if;
  delete from asyncq._attempts where job_id = holder.id;
  return query select touched.shown, touched.document from asyncq._shown(array[holder.id]) as touched;
  if holder.locked_by is null then
    perform asyncq._end_jobs(
      array[holder.id], case when asyncq._state(holder) = 'discarded' then 'discarded' else 'cancelled' end);
  end if;
end
$$;
