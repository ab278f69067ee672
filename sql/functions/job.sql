-- One job as the view shows it, read with a snapshot of its own: a statement that adds a job cannot see it otherwise.

create or replace function asyncq._job(job_id bigint) returns setof asyncq.jobs
  language sql volatile rows 1
  as $$ select jobs.* from asyncq.jobs where jobs.id = job_id $$;
