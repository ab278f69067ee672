-- Add one job without a key or policy, which the caller has checked: as _add_jobs does, at a third of its price.
-- Returns null, and does nothing, if its task is not stored yet or about to be removed; then _add_jobs has to do it.
create or replace function asyncq._add_keyless_job(
  identifier text, payload json, queue_name text, run_at timestamptz, max_attempts int, priority int, flags jsonb, meta jsonb)
  returns bigint
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
declare
  moment constant timestamptz := asyncq.now();
  due constant timestamptz := coalesce(_add_keyless_job.run_at, moment);
  added bigint;
begin
  insert into asyncq._jobs (run_at, created_at, updated_at, task_id, priority, max_attempts, queue, flags, payload, meta)
    select due, moment, moment, known.id, asyncq._priority(_add_keyless_job.priority),
      asyncq._max_attempts(_add_keyless_job.max_attempts), queue_name, _add_keyless_job.flags, _add_keyless_job.payload,
      _add_keyless_job.meta
    from asyncq._tasks as known where known.identifier = _add_keyless_job.identifier and known.retired_in is null
    returning id into added;
  -- As in _add_jobs: the instant decides, not the start of the transaction.
  if added is not null and due <= asyncq.clock() + interval '60 s' then
    perform asyncq._wake_workers();
  end if;
  return added;
end
$$;
