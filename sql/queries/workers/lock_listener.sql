-- lock_listener(worker int) -> holds bool
-- Take the lock of the worker's LISTEN connection, unless an older connection of the worker still holds it.
select pg_catalog.pg_try_advisory_lock(asyncq._lock_space(), -1 - $1::int) as holds
