-- The job that has this key; no row when there is none.

create or replace function asyncq.get_job_by_key(job_key text) returns setof asyncq.jobs
  language sql volatile rows 1
  set search_path = pg_catalog, pg_temp
  as $$
  select found.*
  from asyncq._jobs as job cross join lateral asyncq._job(job.id) as found
  where job.key = job_key
  $$;
