-- Remove the job of a key. What waits, also for a retry, or has failed for good, is deleted. What runs cannot be: it loses its
-- key and its attempts, so that it ends as it will and is not tried again; the row that comes back is locked then.
-- No job has the key: null comes back. Gate, check, act, as in an add: who adds the key at this moment is waited for.

create or replace function asyncq.remove_job(job_key text) returns asyncq.jobs
  language plpgsql strict volatile
  set plan_cache_mode = force_generic_plan
  set enable_seqscan = off
  set search_path = pg_catalog, pg_temp
  as $$
declare
  holder asyncq._jobs;
  job asyncq.jobs;
begin
  perform asyncq._gate(array['key:' || job_key]);
  select held.* into holder from asyncq._jobs as held where held.key = job_key for no key update;
  if holder.id is null then
    return null;
  end if;
  if holder.locked_by is not null then
    update asyncq._jobs as held set key = null, attempts = held.max_attempts, updated_at = asyncq.now() where held.id = holder.id;
  end if;
  select jobs.* into job from asyncq.jobs where jobs.id = holder.id;
  if holder.locked_by is null then
    delete from asyncq._jobs as held where held.id = holder.id;
  end if;
  return job;
end
$$;
