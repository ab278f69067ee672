-- Whether an idle worker is on call, so that adds have to notify it. This is a lock in memory: it shows the present state, not that of
-- the caller's snapshot. Adds that ask share the lock with each other.

create or replace function asyncq._has_on_call() returns boolean
  language sql volatile
  as $$
  select case
    when pg_catalog.pg_try_advisory_lock_shared(asyncq._lock_space(), 0)
    then not pg_catalog.pg_advisory_unlock_shared(asyncq._lock_space(), 0)
    else true
  end
  $$;
