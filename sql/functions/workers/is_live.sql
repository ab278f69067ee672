-- Whether a worker is alive, by the real clock. No rescue has declared it dead, its last beat is within its lease, and
-- its lock was not free for longer than the grace. While the server has kept locks for less than a lease, the lease
-- alone decides. Within the return window of the server every worker is alive that was not declared dead before.
create or replace function asyncq._is_live(worker asyncq._workers) returns boolean
  language sql volatile
  as $$
  select worker.died_at is null
    and (asyncq._is_leased(worker)
        and (worker.doubted_at is null
          or not worker.locks
          or worker.doubted_at + asyncq._grace() >= pg_catalog.clock_timestamp()
          or asyncq._locks_since() + worker.lease >= pg_catalog.clock_timestamp())
      or asyncq._has_just_returned())
  $$;

-- Whether the worker's last beat is within its lease, by the real clock.
create or replace function asyncq._is_leased(worker asyncq._workers) returns boolean
  language sql volatile parallel safe
  as $$ select worker.last_seen + worker.lease >= pg_catalog.clock_timestamp() $$;

-- How long a worker whose lock is free has to prove that it is alive.
create or replace function asyncq._grace() returns interval
  language sql immutable parallel safe
  as $$ select interval '1 second' $$;

-- Whether the server has started, crashed or been promoted within the return window of ten seconds. Workers could not
-- reach it before. Their silence proves nothing, and they get time to return. On a standby the lease alone decides.
create or replace function asyncq._has_just_returned() returns boolean
  language sql volatile
  as $$
  select not pg_catalog.pg_is_in_recovery()
    and asyncq._locks_since() + interval '10 seconds' >= pg_catalog.clock_timestamp()
  $$;

-- Since when advisory locks are held without a break: the start of the server, its last crash, its promotion. A worker
-- that was connected at that time lost its lock without dying. A run that is not recorded yet begins now. A standby has
-- none of the primary's locks, and cannot read an unlogged table. There the answer is now, and the lease alone decides.
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
