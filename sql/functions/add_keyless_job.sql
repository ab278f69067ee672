-- Add one job that asks nothing about others, has no key, and was checked by the caller: what _add_jobs does for most jobs, at a
-- third of its price. Null, and nothing is done, when its task is not stored yet, or about to be removed: _add_jobs sees to that.
--
-- at_once: the caller commits at once. Then the job of an idle worker's offer is this one, if it can run now: it is claimed by
-- the offer's token, and all that the worker has to know is sent along. An offer is held until the commit; it is for one job, and no
-- add waits for another one. At other levels than READ COMMITTED an offer that has just been taken would be an error.

create or replace function asyncq._add_keyless_job(
  identifier text, payload json, queue_name text, run_at timestamptz, max_attempts int, priority int, flags jsonb, meta jsonb,
  at_once boolean)
  returns bigint
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
declare
  moment constant timestamptz := asyncq.now();
  due constant timestamptz := coalesce(_add_keyless_job.run_at, moment);
  taken asyncq._offers;
  added asyncq._jobs;
begin
  if at_once and queue_name is null and _add_keyless_job.run_at is null and _add_keyless_job.flags is null
    -- A notification has room for 8,000 bytes. Written as a string, meta becomes twice as long at most.
    and octet_length(_add_keyless_job.payload::text) + coalesce(2 * octet_length(_add_keyless_job.meta::text), 0) <= 7000
    and current_setting('transaction_isolation') = 'read committed'
  then
    select offer.* into taken
      from asyncq._tasks as task join asyncq._offers as offer on task.id = any(offer.task_ids)
      where task.identifier = _add_keyless_job.identifier
        and offer.token is not null and offer.job_id is null and asyncq._is_listening(offer.worker_id)
      limit 1 for no key update of offer skip locked;
  end if;
  insert into asyncq._jobs
    (run_at, created_at, updated_at, task_id, priority, max_attempts, queue, flags, payload, meta, locked_by, locked_at, lock_token)
    select due, moment, moment, task.id, coalesce(_add_keyless_job.priority, 0),
      coalesce(_add_keyless_job.max_attempts, 25), queue_name, _add_keyless_job.flags, _add_keyless_job.payload,
      _add_keyless_job.meta, taken.worker_id, case when taken.worker_id is not null then moment end, taken.token
    from asyncq._tasks as task where task.identifier = _add_keyless_job.identifier and task.retired_in is null
    returning * into added;
  if added.id is null then
    return null;
  elsif taken.worker_id is not null then
    perform asyncq._hand_over(added, taken.channel);
  -- As in _add_jobs: the instant decides who is told.
  elsif due <= asyncq.clock() + interval '60 s' then
    perform asyncq._wake_workers();
  end if;
  return added.id;
end
$$;
