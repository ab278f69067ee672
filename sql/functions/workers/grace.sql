-- How long a worker whose lock is free has to say that it lives.

create or replace function asyncq._grace() returns interval
  language sql immutable parallel safe
  as $$ select interval '1 second' $$;
