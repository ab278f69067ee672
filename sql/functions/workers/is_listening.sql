-- Whether a worker that opens hand-off slots listens: its LISTEN connection holds a lock of its own, which ends with it. Adds that ask
-- share the lock with each other, as in _has_on_call.

create or replace function asyncq._is_listening(worker int) returns boolean
  language sql volatile
  as $$
  select case
    when pg_catalog.pg_try_advisory_lock_shared(asyncq._lock_space(), -1 - worker)
    then not pg_catalog.pg_advisory_unlock_shared(asyncq._lock_space(), -1 - worker)
    else true
  end
  $$;
