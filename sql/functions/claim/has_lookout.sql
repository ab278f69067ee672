-- Whether an idle worker is on the lookout, and wants to hear of what becomes due. A lock in memory: it says what is, not what
-- was when the caller's snapshot was taken. Askers share it with each other.

create or replace function asyncq._has_lookout() returns boolean
  language sql volatile
  as $$
  select case
    when pg_catalog.pg_try_advisory_lock_shared(asyncq._lock_space(), 0)
    then not pg_catalog.pg_advisory_unlock_shared(asyncq._lock_space(), 0)
    else true
  end
  $$;
