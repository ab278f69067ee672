-- Whether the server has started, crashed or been promoted within the return window of ten seconds. Workers could not reach it
-- before, so their silence proves nothing, and they get time to return. A standby rescues no worker, and the lease alone decides.

create or replace function asyncq._has_just_returned() returns boolean
  language sql volatile
  as $$
  select not pg_catalog.pg_is_in_recovery()
    and asyncq._locks_since() + interval '10 seconds' >= pg_catalog.clock_timestamp()
  $$;
