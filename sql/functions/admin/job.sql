-- One job that has a row, as the view shows it, read with a snapshot of its own: a statement that adds a job cannot see it
-- otherwise.

create or replace function asyncq._job(job_id bigint) returns setof asyncq.jobs
  language sql volatile rows 1
  as $$ select shown.* from asyncq._shown_jobs as shown where shown.id = job_id $$;
