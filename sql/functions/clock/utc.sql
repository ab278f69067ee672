-- A moment as text in UTC, whatever zone and style the session has.

create or replace function asyncq._utc(moment timestamptz) returns text
  language sql immutable parallel safe
  as $$ select to_char(moment at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') $$;
