-- Whether the server has started, crashed or been promoted within the return window. Workers could not reach it before: that they
-- were silent proves nothing, and they get time to come back. On a standby nobody is rescued, and the lease alone decides.

create or replace function asyncq._has_just_returned() returns boolean
  language sql volatile
  as $$
  select not pg_catalog.pg_is_in_recovery()
    and asyncq._locks_since() + interval '10 seconds' >= pg_catalog.clock_timestamp()
  $$;
