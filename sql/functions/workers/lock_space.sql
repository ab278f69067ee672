-- The first key of the advisory locks of this schema's workers. Advisory locks belong to a database, so schemas need
-- separate keys. The second key is one of these:
--   a worker's id         the worker is connected
--   -1 - a worker's id    its LISTEN connection exists
--   0                     the holder is on call
--   -1                    shared by adds that notified no worker, until their transaction ends
--   -2147483648           shared by workers that open hand-off slots
create or replace function asyncq._lock_space() returns int
  language sql immutable parallel safe
  as $$ select pg_catalog.hashtext('asyncq:workers') $$;
