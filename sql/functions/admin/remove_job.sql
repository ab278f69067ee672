-- Remove the job of a key. What waits, also for a retry, or is discarded, is deleted. What runs cannot be: it loses its
-- key and its attempts, so that it ends as it will and is not tried or run again; the row that comes back is locked then.
-- No job has the key: null comes back.

create or replace function asyncq.remove_job(job_key text) returns asyncq.jobs
  language sql strict volatile
  set search_path = pg_catalog, pg_temp
  as $$ select (removed.shown).* from asyncq._remove_job(job_key) as removed $$;
