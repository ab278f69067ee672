-- The job with this id; no row when it has ended, or never was.
create or replace function asyncq.get_job(job_id bigint) returns setof asyncq.jobs
  language sql volatile rows 1
  set search_path = pg_catalog, pg_temp
  as $$ select found.* from asyncq.jobs as found where found.id = job_id $$;

-- The job that has this key; no row when there is none. A job with a key is never in a batch.
create or replace function asyncq.get_job_by_key(job_key text) returns setof asyncq.jobs
  language sql volatile rows 1
  set search_path = pg_catalog, pg_temp
  as $$ select shown.* from asyncq._shown_jobs as shown where shown.key = job_key $$;
