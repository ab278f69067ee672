-- Notify the worker on call of jobs that are due, or will be before a worker looks for its next job by itself, which it does at
-- least once a minute. The instant decides, not the start of the transaction, which may be long ago.

create or replace function asyncq._wake_for(ids bigint[]) returns void
  language plpgsql volatile
  as $$
declare
  soon constant timestamptz := asyncq.clock() + interval '60 s';
begin
  if exists (
      select from asyncq._jobs as job
      where job.id = any(ids) and asyncq._is_due(job, soon) and asyncq._is_ready(job))
  then
    perform asyncq._wake_workers();
  end if;
end
$$;
