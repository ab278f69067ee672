-- Since when advisory locks are held without a break: the start of the server, its last crash, its promotion. Whoever was
-- connected then has lost its lock without having died. A run that is not recorded yet begins now. A standby has none of the
-- primary's locks, and refuses to plan a query on an unlogged table: there the answer is now, and the lease alone decides.

create or replace function asyncq._locks_since() returns timestamptz
  language plpgsql volatile
  as $$
begin
  if pg_catalog.pg_is_in_recovery() then
    return pg_catalog.clock_timestamp();
  end if;
  return greatest(
    pg_catalog.pg_postmaster_start_time(),
    coalesce((select run.since from asyncq._server_runs as run), pg_catalog.clock_timestamp()));
end
$$;
