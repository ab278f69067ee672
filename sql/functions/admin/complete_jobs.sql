-- End jobs as completed, by their ids: what waits, waits for its retry, or is discarded. What runs is left alone.
-- Returns the rows of the jobs that ended, as they were, in the order of their ids.

create or replace function asyncq.complete_jobs(job_ids bigint[]) returns setof asyncq.jobs
  language sql volatile
  set search_path = pg_catalog, pg_temp
  as $$ select (done.shown).* from asyncq._administer_jobs('complete', job_ids) as done $$;
