-- All jobs that have not ended, those of batches too: for who reads them. It is inlined, so that the indexes of _jobs are used.

create or replace function asyncq._all_jobs() returns setof asyncq._jobs
  language sql stable
  as $$
  select job.* from asyncq._jobs as job
  union all
  select batched.* from asyncq._batched_jobs() as batched
  $$;
