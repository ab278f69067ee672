-- Notify the worker on call, when this transaction commits, that a job may have become due. A worker that misses the notification
-- finds the job at its next poll. The text is constant, so that PostgreSQL folds many calls into one message.
--
-- While no worker is on call, nobody is notified: a notification makes all commits of the database wait for each other, and busy
-- workers fetch anyway. But a worker may become idle before this transaction has ended, and not see its jobs. So an add that notifies
-- nobody holds a shared lock until its end, and asks once more. A worker that goes on call checks for such locks (_go_on_call).

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
