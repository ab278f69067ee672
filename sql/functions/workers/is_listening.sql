-- Whether a worker that makes offers listens: its LISTEN connection holds a lock of its own, which ends with it. Askers share it
-- with each other, as they do in _has_lookout.

create or replace function asyncq._is_listening(worker int) returns boolean
  language sql volatile
  as $$
  select case
    when pg_catalog.pg_try_advisory_lock_shared(asyncq._lock_space(), -1 - worker)
    then not pg_catalog.pg_advisory_unlock_shared(asyncq._lock_space(), -1 - worker)
    else true
  end
  $$;
