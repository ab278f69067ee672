-- Whether a worker was heard of within its lease; by the real clock.

create or replace function asyncq._is_leased(worker asyncq._workers) returns boolean
  language sql volatile parallel safe
  as $$ select worker.last_seen + worker.lease >= pg_catalog.clock_timestamp() $$;
