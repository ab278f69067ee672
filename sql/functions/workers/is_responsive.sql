-- Whether a job may be handed to a worker: no rescue has declared it dead, its lock is not in doubt, and it has missed fewer than
-- two of the three beats of a lease, by the real clock.

create or replace function asyncq._is_responsive(worker asyncq._workers) returns boolean
  language sql volatile parallel safe
  as $$
  select worker.died_at is null and worker.doubted_at is null
    and worker.last_seen operator(pg_catalog.+) (worker.lease operator(pg_catalog.*) 0.67::pg_catalog.float8)
      operator(pg_catalog.>=) pg_catalog.clock_timestamp()
  $$;
