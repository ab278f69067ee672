-- The priority that a job gets: the one that the add gave, or the default.

create or replace function asyncq._priority(given int) returns smallint
  language sql immutable parallel safe
  as $$ select coalesce(given, 0)::smallint $$;
