-- The first key of the advisory locks of this schema's workers; the second one is the worker's id. Locks belong to a database,
-- whose schemas must not meet.
create or replace function asyncq._lock_space() returns int
  language sql immutable parallel safe
  as $$ select pg_catalog.hashtext('asyncq:workers') $$;
