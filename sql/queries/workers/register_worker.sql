-- register_worker(lease_s float8, pid int, concurrency int, host text, tasks text[], backend int, queues text[], exclude text[]) -> id int, holds bool
-- backend is the server's process behind the connection, or 0. If another process answers, a pooler shares its
-- sessions, and no worker can hold a lock (null): then only the lease counts. The lock is taken before the row is
-- visible.
with worker as (
  insert into asyncq._workers (lease, pid, concurrency, host, tasks, locks, queues, exclude)
  values (make_interval(secs => $1::float8), $2, $3, $4, $5, pg_catalog.pg_backend_pid() = $6::int, $7, $8)
  returning id, case when locks then pg_catalog.pg_try_advisory_lock(asyncq._lock_space(), id) end as holds),
slot as (
  insert into asyncq._handoff_slots (worker_id) select id from worker)
select id, holds from worker
