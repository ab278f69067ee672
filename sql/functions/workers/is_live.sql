-- Whether a worker lives, by the real clock: no rescue has declared it dead, its last beat is within its lease, and its lock was
-- not free for longer than the grace. While the server has kept locks for less than a lease, the lease alone decides. Within the
-- return window of the server every worker lives that was not declared dead before.

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
