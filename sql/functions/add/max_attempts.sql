-- The attempts that a job gets: those that the add gave, or the default.

create or replace function asyncq._max_attempts(given int) returns smallint
  language sql immutable parallel safe
  as $$ select coalesce(given, 25)::smallint $$;
