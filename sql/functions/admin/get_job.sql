-- The job with this id; no row when it has ended, or never was.
create or replace function asyncq.get_job(job_id bigint) returns setof asyncq.jobs
  language sql volatile rows 1
  set search_path = pg_catalog, pg_temp
  as $$ select found.* from asyncq.jobs as found where found.id = job_id $$;

-- The job that has this key; no row when there is none.
create or replace function asyncq.get_job_by_key(job_key text) returns setof asyncq.jobs
  language sql volatile rows 1
  set search_path = pg_catalog, pg_temp
  as $$
  select found.*
  from asyncq._jobs as job cross join lateral asyncq._job(job.id) as found
  where job.key = job_key
  $$;

-- One job that has a row, as the view shows it, read with a new snapshot: a statement that adds a job cannot see it
-- otherwise.
create or replace function asyncq._job(job_id bigint) returns setof asyncq.jobs
  language sql volatile rows 1
  as $$ select shown.* from asyncq._shown_jobs as shown where shown.id = job_id $$;
