-- Whether a worker lives, by the real clock: no rescue has declared it dead, it was heard of within its lease, and its lock was not
-- free for longer than the grace. While the server, as the keeper of locks, is younger than the lease, the lease alone decides.
-- Everybody lives who was not declared dead before while the server has just returned.

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
