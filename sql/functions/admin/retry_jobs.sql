-- Retry jobs that wait for a retry or are discarded, by their ids: no attempt has failed, due now. last_error stays until
-- the next failure: it says what was wrong. What runs, and what has never failed, is left alone.
-- Returns the rows of the jobs that will be tried again, as they are now, in the order of their ids.

create or replace function asyncq.retry_jobs(job_ids bigint[]) returns setof asyncq.jobs
  language sql volatile
  set search_path = pg_catalog, pg_temp
  as $$ select (done.shown).* from asyncq._administer_jobs('retry', job_ids) as done $$;
