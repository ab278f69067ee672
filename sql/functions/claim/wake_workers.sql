-- Notify the worker on call, when this transaction commits, that a job may have become due. A worker that misses this
-- finds the job at its next poll. The text is constant, so that PostgreSQL folds many calls into one message.
--
-- While no worker is on call, nothing is sent: a notification makes all commits of the database wait for each other,
-- and busy workers fetch anyway. But a worker may become idle before this transaction has ended, and not see its jobs.
-- So an add that notifies no worker holds a shared lock until its end, and checks once more. _go_on_call looks for it.
create or replace function asyncq._wake_workers() returns void
  language sql volatile
  as $$
  select case
    when asyncq._has_on_call()
      -- No lock: a worker is just going on call.
      or not pg_catalog.pg_try_advisory_xact_lock_shared(asyncq._lock_space(), -1)
      or asyncq._has_on_call()
    then pg_catalog.pg_notify('asyncq:jobs', '')
  end
  $$;

-- Whether an idle worker is on call, so that adds have to notify it. This is a lock in memory: it shows the present
-- state, not that of the caller's snapshot. Adds that check share the lock with each other.
create or replace function asyncq._has_on_call() returns boolean
  language sql volatile
  as $$
  select case
    when pg_catalog.pg_try_advisory_lock_shared(asyncq._lock_space(), 0)
    then not pg_catalog.pg_advisory_unlock_shared(asyncq._lock_space(), 0)
    else true
  end
  $$;

-- Notify the worker on call of jobs that are due within a minute. By itself a worker looks for its next job at least
-- once a minute. The instant decides, not the start of the transaction, which may be long ago.
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
