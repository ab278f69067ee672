-- Tell the worker on the lookout, when this transaction commits, that something may have become due. A hint: a worker that
-- misses it finds the job at its next poll. The text is constant, so that PostgreSQL folds many calls into one message.
--
-- Nobody is told while no worker is on the lookout, since a notification makes all commits of the database wait for each other:
-- those that are busy look by themselves. But one of them may begin to be idle before this transaction has ended, and not see
-- what it did: so who tells nobody leaves a trace until its end, and asks again; who begins to be idle looks for traces.

create or replace function asyncq._wake_workers() returns void
  language sql volatile
  as $$
  select case
    when asyncq._has_lookout()
      -- The trace cannot be left while somebody looks for traces, who is about to be idle.
      or not pg_catalog.pg_try_advisory_xact_lock_shared(asyncq._lock_space(), -1)
      or asyncq._has_lookout()
    then pg_catalog.pg_notify('asyncq:jobs', '')
  end
  $$;
