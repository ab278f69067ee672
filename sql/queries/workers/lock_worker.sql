-- lock_worker(worker int, backend int) -> holds bool
-- Take the worker's lock for this connection; not behind a pooler (null), as register_worker says. Another worker may
-- check it at this moment, or an older connection of this worker may still have it: then it is tried again later.
-- A worker that was declared dead gets no lock.
select case when pg_catalog.pg_backend_pid() = $2::int
  then exists (select from asyncq._workers where id = $1::int and died_at is null)
    and pg_catalog.pg_try_advisory_lock(asyncq._lock_space(), $1::int) end as holds
