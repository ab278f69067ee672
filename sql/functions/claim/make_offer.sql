-- An idle worker offers to take a job of one of these tasks, by this token. What it offers is an empty batch, which an add fills.
-- Returns whether it does.
--
-- Null, and nothing is done: no offers are to be made for a while. A snapshot that is held keeps versions of two rows for each job
-- that was handed over, and every add walks over them: 100,000 cost it two milliseconds. Nor are any made while the sequence
-- would give ids once more: a job with the id of another one would be lost where its batch is unpacked. Where nobody makes offers, none looks.
--
-- hold: this session does not hold the locks yet that say that it listens for this worker, and makes offers.
-- heard: the token of the last offer that was taken and heard of. One that was taken without a word stays as it is: its job is
-- to be returned first. A worker that was declared dead offers nothing.
-- packable_ids: of the tasks, those whose jobs a batch may hold. Jobs of other tasks are not handed over.
-- An offer that is lost in a crash was of a connection that is lost too: its commit need not be waited for.

create or replace function asyncq._make_offer(
  worker int, token bigint, heard bigint, task_ids int[], packable_ids int[], channel text, hold boolean)
  returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
  as $$
declare
  earlier bigint;
  -- Once: asked for each row, it would not do for the index.
  given constant bigint := coalesce(pg_sequence_last_value('asyncq._jobs_id_seq'::regclass), 0);
begin
  if greatest(pg_stat_get_dead_tuples('asyncq._offers'::regclass), pg_stat_get_dead_tuples('asyncq._batches'::regclass)) > 100000
    or exists (select from asyncq._jobs as job where job.id > given)
  then
    -- As often as it was taken: once for each worker that this session has spoken for.
    while exists (
      select from pg_locks as held
      where held.locktype = 'advisory' and held.pid = pg_backend_pid() and held.mode = 'ShareLock'
        and held.classid = asyncq._lock_space()::oid and held.objid = (-2147483648)::oid and held.objsubid = 2)
    loop
      perform pg_advisory_unlock_shared(asyncq._lock_space(), -2147483648);
    end loop;
    return null;
  end if;
  -- An adder may ask at this moment; another connection of the worker may still hold it, which the server believes to live.
  if hold and not pg_try_advisory_lock(asyncq._lock_space(), -1 - worker) then
    return false;
  elsif hold then
    perform pg_advisory_lock_shared(asyncq._lock_space(), -2147483648);
  end if;
  perform set_config('synchronous_commit', 'off', true);
  select offer.token into earlier
    from asyncq._offers as offer join asyncq._workers as alive on alive.id = offer.worker_id
    where offer.worker_id = worker and alive.died_at is null
    for no key update of offer;
  if not found then
    return false;
  end if;
  -- An add that takes it at this moment is waited for.
  delete from asyncq._batches where locked_by = worker and lock_token = earlier and ids = '{}';
  if not found and earlier <> heard then
    return false;
  end if;
  update asyncq._offers as offer
    set token = _make_offer.token, task_ids = _make_offer.task_ids, packable_ids = _make_offer.packable_ids,
      channel = _make_offer.channel
    where offer.worker_id = worker;
  insert into asyncq._batches
      (lock_token, locked_at, locked_by, open, ids, run_at, created_at, task_id, priority, max_attempts, payload)
    values (_make_offer.token, asyncq.now(), worker, '', '{}', '{}', '{}', '{}', '{}', '{}', '{}');
  return true;
end
$$;
