-- The two clocks: now() is the start of the transaction, clock() is the instant. Both inline to the server's own
-- functions. Tests replace them in their own schema to move time.
create or replace function asyncq.clock() returns timestamptz
  language sql volatile parallel safe
  as $$ select pg_catalog.clock_timestamp() $$;

create or replace function asyncq.now() returns timestamptz
  language sql stable parallel safe
  as $$ select pg_catalog.now() $$;
