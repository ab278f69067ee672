-- Whether a worker that listens makes offers, which an add need look for only then. A lock in memory that those who make them share:
-- their LISTEN connections hold it, and it ends with them. Of askers at the same moment all but one look in vain.

create or replace function asyncq._has_offers() returns boolean
  language sql volatile
  as $$
  select case
    when pg_catalog.pg_try_advisory_lock(asyncq._lock_space(), -2147483648)
    then not pg_catalog.pg_advisory_unlock(asyncq._lock_space(), -2147483648)
    else true
  end
  $$;
