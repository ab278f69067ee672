-- Whether a worker that listens opens hand-off slots, so that an add should look for one. The LISTEN connections of such workers share
-- a lock in memory, which ends with them. Of adds that ask at the same moment all but one get true.

create or replace function asyncq._has_open_slot() returns boolean
  language sql volatile
  as $$
  select case
    when pg_catalog.pg_try_advisory_lock(asyncq._lock_space(), -2147483648)
    then not pg_catalog.pg_advisory_unlock(asyncq._lock_space(), -2147483648)
    else true
  end
  $$;
