-- The first key of the advisory locks of this schema's workers; the second is the worker's id. Advisory locks belong to
-- a database, so schemas need separate keys.
create or replace function asyncq._lock_space() returns int
  language sql immutable parallel safe
  as $$ select pg_catalog.hashtext('asyncq:workers') $$;
