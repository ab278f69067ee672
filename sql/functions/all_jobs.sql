-- All jobs that have not ended, those of batches too: for who reads them. It is inlined, so that the indexes of _jobs are used.

create or replace function asyncq._all_jobs() returns setof asyncq._jobs
  language sql stable
  as $$
  select id, run_at, created_at, updated_at, locked_at, cancelled_at, keep_until, lock_token, task_id, locked_by, revision, priority,
    attempts, max_attempts, interruptions, queue, key, flags, payload, meta, last_error, unique_key, keep_states, rerun
  from asyncq._jobs
  union all
  select id, run_at, created_at, updated_at, locked_at, cancelled_at, keep_until, lock_token, task_id, locked_by, revision, priority,
    attempts, max_attempts, interruptions, queue, key, flags, payload, meta, last_error, unique_key, keep_states, rerun
  from asyncq._packed_jobs()
  $$;
