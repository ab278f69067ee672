-- Add one job that asks nothing about others, has no key, and was checked by the caller: what _add_jobs does for most jobs, at a
-- third of its price. Null, and nothing is done, when its task is not stored yet, or about to be removed: _add_jobs sees to that.
--
-- at_once: the caller commits at once. Then a job that can run now is claimed for a worker that offers to take one, by the
-- token of the offer, and all that a run has to know is sent along, as asyncq/store/offers.py reads it. The offer is held until the
-- commit and is for one job; no add waits for another one. At other levels than READ COMMITTED an offer that has just been
-- renewed would be an error.

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
  offer asyncq._offers;
  added bigint;
  task int;
begin
  if at_once and queue_name is null and _add_keyless_job.run_at is null and _add_keyless_job.flags is null
    -- A notification has room for 8,000 bytes. Written as a string, meta becomes twice as long at most.
    and octet_length(_add_keyless_job.payload::text) + coalesce(2 * octet_length(_add_keyless_job.meta::text), 0) <= 7000
    and current_setting('transaction_isolation') = 'read committed'
    and asyncq._has_offers()
  then
    select made.* into offer
      from asyncq._tasks as known join asyncq._offers as made on known.id = any(made.task_ids)
      where known.identifier = _add_keyless_job.identifier
        and made.token is not null and made.job_id is null and asyncq._is_listening(made.worker_id)
      limit 1 for no key update of made skip locked;
  end if;
  insert into asyncq._jobs
    (run_at, created_at, updated_at, task_id, priority, max_attempts, queue, flags, payload, meta, locked_by, locked_at, lock_token)
    select due, moment, moment, known.id, coalesce(_add_keyless_job.priority, 0),
      coalesce(_add_keyless_job.max_attempts, 25), queue_name, _add_keyless_job.flags, _add_keyless_job.payload,
      _add_keyless_job.meta, offer.worker_id, case when offer.worker_id is not null then moment end, offer.token
    from asyncq._tasks as known where known.identifier = _add_keyless_job.identifier and known.retired_in is null
    returning id, task_id into added, task;
  if added is null then
    return null;
  elsif offer.worker_id is not null then
    update asyncq._offers set job_id = added where worker_id = offer.worker_id;
    perform pg_notify(offer.channel, json_build_array(
      offer.token, added, task, coalesce(_add_keyless_job.max_attempts, 25), coalesce(_add_keyless_job.priority, 0),
      -- In microseconds since 1970.
      (extract(epoch from moment) * 1000000)::bigint, _add_keyless_job.payload, _add_keyless_job.meta::text)::text);
  -- As in _add_jobs: the instant decides who is told.
  elsif due <= asyncq.clock() + interval '60 s' then
    perform asyncq._wake_workers();
  end if;
  return added;
end
$$;
