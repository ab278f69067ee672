-- Jobs as the view shows them and as documents, in the order of their ids. Volatile: it sees what its caller has just done.

create or replace function asyncq._shown(ids bigint[]) returns table (shown asyncq.jobs, document text)
  language sql volatile
  as $$
  select jobs, asyncq._document(job)::text
  from asyncq._jobs as job join asyncq.jobs on jobs.id = job.id
  where job.id = any(ids)
  order by job.id
  $$;
