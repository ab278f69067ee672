-- Since when advisory locks are held without a break: the start of the server, its last crash, its promotion. Whoever was
-- connected then has lost its lock without having died. A run that nobody has noted yet begins now.

create or replace function asyncq._locks_since() returns timestamptz
  language sql volatile
  as $$
  select greatest(
    pg_catalog.pg_postmaster_start_time(),
    coalesce((select run.since from asyncq._server_runs as run), pg_catalog.clock_timestamp()))
  $$;
