-- Add one job that asks nothing about others, has no key, and was checked by the caller: what _add_jobs does for most jobs, at a
-- third of its price. Null, and nothing is done, when its task is not stored yet, or about to be removed: _add_jobs sees to that.
--
-- at_once: the caller commits at once. Then a job that can run now is claimed for a worker that offers to take one, by the
-- token of the offer, and all that a run has to know is sent along, as asyncq/store/handoff.py reads it. The job fills the batch
-- that the offer is; what no batch has room for (see _is_packable) gets a row, and the empty batch goes. The batch is held until
-- the commit and is for one job; no add waits for another one. At other levels than READ COMMITTED an offer that has just been
-- renewed would be an error. An add skips the offers of workers that have missed beats, see _is_heard.

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
  limit_of_attempts constant smallint := coalesce(_add_keyless_job.max_attempts, 25);
  rank constant smallint := coalesce(_add_keyless_job.priority, 0);
  place tid;
  taker int;
  claim bigint;
  told text;
  task int;
  is_packable boolean;
  added bigint;
begin
  if at_once and queue_name is null and _add_keyless_job.run_at is null and _add_keyless_job.flags is null
    -- A notification has room for 8,000 bytes. Written as a string, meta becomes twice as long at most.
    and octet_length(_add_keyless_job.payload::text) + coalesce(2 * octet_length(_add_keyless_job.meta::text), 0) <= 7000
    and current_setting('transaction_isolation') = 'read committed'
    and asyncq._has_offers()
  then
    select batch.ctid, made.worker_id, made.token, made.channel, known.id,
        known.id = any(made.packable_ids) and _add_keyless_job.meta is null and limit_of_attempts >= 1
          and octet_length(_add_keyless_job.payload::text) <= 1000
      into place, taker, claim, told, task, is_packable
      from asyncq._tasks as known
      join asyncq._offers as made on known.id = any(made.task_ids)
      join asyncq._batches as batch on batch.locked_by = made.worker_id and batch.lock_token = made.token
      join asyncq._workers as maker on maker.id = made.worker_id and asyncq._is_heard(maker)
      where known.identifier = _add_keyless_job.identifier and known.retired_in is null
        and batch.ids = '{}' and asyncq._is_listening(made.worker_id)
      limit 1 for no key update of batch skip locked;
  end if;
  if is_packable then
    update asyncq._batches
      set open = '1', ids = array[nextval('asyncq._jobs_id_seq')], run_at = array[moment], created_at = array[moment],
        locked_at = moment, task_id = array[task], priority = array[rank], max_attempts = array[limit_of_attempts],
        payload = array[_add_keyless_job.payload]
      where ctid = place
      returning ids[1] into added;
  else
    if taker is not null then
      delete from asyncq._batches where ctid = place;
    end if;
    insert into asyncq._jobs
      (run_at, created_at, updated_at, task_id, priority, max_attempts, queue, flags, payload, meta, locked_by, locked_at, lock_token)
      select due, moment, moment, known.id, rank, limit_of_attempts, queue_name, _add_keyless_job.flags,
        _add_keyless_job.payload, _add_keyless_job.meta, taker, case when taker is not null then moment end, claim
      from asyncq._tasks as known where known.identifier = _add_keyless_job.identifier and known.retired_in is null
      returning id into added;
  end if;
  if taker is not null then
    perform pg_notify(told, json_build_array(
      claim, added, task, limit_of_attempts, rank,
      -- In microseconds since 1970.
      (extract(epoch from moment) * 1000000)::bigint, _add_keyless_job.payload, _add_keyless_job.meta::text,
      (extract(epoch from clock_timestamp()) * 1000000)::bigint)::text);
  -- As in _add_jobs: the instant decides who is told.
  elsif added is not null and due <= asyncq.clock() + interval '60 s' then
    perform asyncq._wake_workers();
  end if;
  return added;
end
$$;
