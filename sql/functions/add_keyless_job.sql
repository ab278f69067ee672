-- Add one job that asks nothing about others, has no key, and was checked by the caller: what _add_jobs does for most jobs, at a
-- third of its price. Null, and nothing is done, when its task is not stored yet, or about to be removed: _add_jobs sees to that.
--
-- at_once: the caller commits at once. Then a job that can run now is claimed for a worker that offers to take one, by the
-- token of the offer, and all that a run has to know is sent along, as asyncq/store/offers.py reads it. The offer is held until the
-- commit and is for one job; no add waits for another one. At other levels than READ COMMITTED an offer that has just been
-- renewed would be an error. Where batches may hold such a job, which _is_packable says, and the worker for its tasks, the claim is a
-- batch of one: the job never is in _jobs, whose checks and indexes cost as much as all else of an add.

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
  attempts constant smallint := coalesce(_add_keyless_job.max_attempts, 25);
  rank constant smallint := coalesce(_add_keyless_job.priority, 0);
  size constant int := octet_length(_add_keyless_job.payload::text);
  worker int;
  token bigint;
  channel text;
  is_packed boolean;
  task int;
  added bigint;
begin
  if at_once and queue_name is null and _add_keyless_job.run_at is null and _add_keyless_job.flags is null
    -- A notification has room for 8,000 bytes. Written as a string, meta becomes twice as long at most.
    and size + coalesce(2 * octet_length(_add_keyless_job.meta::text), 0) <= 7000
    and current_setting('transaction_isolation') = 'read committed'
  then
    select offer.worker_id, offer.token, offer.channel, known.id,
        size <= 1000 and _add_keyless_job.meta is null and known.id = any(offer.packable_ids)
      into worker, token, channel, task, is_packed
      from asyncq._tasks as known join asyncq._offers as offer on known.id = any(offer.task_ids)
      where known.identifier = _add_keyless_job.identifier and known.retired_in is null
        and offer.token is not null and offer.job_id is null and asyncq._is_listening(offer.worker_id)
      limit 1 for no key update of offer skip locked;
  end if;
  if is_packed then
    insert into asyncq._batches
      (lock_token, locked_at, locked_by, open, ids, run_at, created_at, task_id, priority, max_attempts, payload)
      values (token, moment, worker, B'1', array[nextval('asyncq._jobs_id_seq')], array[moment], array[moment], array[task],
        array[rank], array[attempts], array[_add_keyless_job.payload])
      returning ids[1] into added;
  else
    insert into asyncq._jobs
      (run_at, created_at, updated_at, task_id, priority, max_attempts, queue, flags, payload, meta, locked_by, locked_at,
        lock_token)
      select due, moment, moment, known.id, rank, attempts, queue_name, _add_keyless_job.flags, _add_keyless_job.payload,
        _add_keyless_job.meta, worker, case when worker is not null then moment end, token
      from asyncq._tasks as known where known.identifier = _add_keyless_job.identifier and known.retired_in is null
      returning id, task_id into added, task;
  end if;
  if added is null then
    return null;
  elsif worker is not null then
    update asyncq._offers set job_id = added where worker_id = worker;
    perform pg_notify(channel, json_build_array(token, added, task, attempts, rank,
      -- In microseconds since 1970.
      (extract(epoch from moment) * 1000000)::bigint, _add_keyless_job.payload, _add_keyless_job.meta::text)::text);
  -- As in _add_jobs: the instant decides who is told.
  elsif due <= asyncq.clock() + interval '60 s' then
    perform asyncq._wake_workers();
  end if;
  return added;
end
$$;
