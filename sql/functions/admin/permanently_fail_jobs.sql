-- Discard jobs, by their ids: no attempt is left, and last_error is the message, 'Manually marked as failed' if that is
-- null. They keep their keys; an add of such a key makes a new job. What runs is left alone.
-- Returns the rows of these jobs as they are now, in the order of their ids.

create or replace function asyncq.permanently_fail_jobs(job_ids bigint[], error_message text default null)
  returns setof asyncq.jobs
  language sql volatile
  set search_path = pg_catalog, pg_temp
  as $$ select (done.shown).* from asyncq._administer_jobs('discard', job_ids, error_message) as done $$;
