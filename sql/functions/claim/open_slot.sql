-- Open the hand-off slot of an idle worker for a job of these tasks, under this token: an empty batch, which an add
-- fills. Returns whether it is open.
--
-- Returns null, and does nothing, while no slots should be opened. If a snapshot is held, each handed-over job leaves
-- dead versions of two rows; 100,000 of them cost each add two milliseconds. Nor is a slot opened while the sequence
-- would give ids twice: a split of the batch would lose a job. Nor while everything is paused. While no worker
-- opens slots, no add looks for one.
--
-- takes_locks: this session has yet to take two locks. They say that it listens for this worker, and that slots are
-- opened. acknowledged_token: the token of the last slot whose job has arrived. A slot that was filled without that
-- stays as it is: its job has to be returned first. A worker that was declared dead opens no slot. batchable_ids: of
-- the tasks, those whose jobs a batch may hold. Jobs of other tasks are not handed over.
-- The commit does not wait for the disk: a crash that loses the slot ends the worker's connection too.
create or replace function asyncq._open_slot(
  worker int, token bigint, acknowledged_token bigint, task_ids int[], batchable_ids int[], channel text, takes_locks boolean)
  returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
  as $$
declare
  earlier bigint;
  -- Read once: a volatile function is no bound for an index.
  given constant bigint := coalesce(pg_sequence_last_value('asyncq._jobs_id_seq'::regclass), 0);
begin
  if greatest(pg_stat_get_dead_tuples('asyncq._handoff_slots'::regclass), pg_stat_get_dead_tuples('asyncq._batches'::regclass)) > 100000
    or exists (select from asyncq._jobs as job where job.id > given)
    or exists (select from asyncq._limits where id = 0 and paused_at is not null)
  then
    -- As often as this session took it: once for each of its worker ids.
    while exists (
      select from pg_locks as held
      where held.locktype = 'advisory' and held.pid = pg_backend_pid() and held.mode = 'ShareLock'
        and held.classid = asyncq._lock_space()::oid and held.objid = (-2147483648)::oid and held.objsubid = 2)
    loop
      perform pg_advisory_unlock_shared(asyncq._lock_space(), -2147483648);
    end loop;
    return null;
  end if;
  -- An add may hold the lock for a moment; or the server still keeps an older connection of this worker.
  if takes_locks and not pg_try_advisory_lock(asyncq._lock_space(), -1 - worker) then
    return false;
  elsif takes_locks then
    perform pg_advisory_lock_shared(asyncq._lock_space(), -2147483648);
  end if;
  perform set_config('synchronous_commit', 'off', true);
  select slot.token into earlier
    from asyncq._handoff_slots as slot join asyncq._workers as alive on alive.id = slot.worker_id
    where slot.worker_id = worker and alive.died_at is null
    for no key update of slot;
  if not found then
    return false;
  end if;
  -- Waits for an add that fills it at this moment.
  delete from asyncq._batches where locked_by = worker and lock_token = earlier and ids = '{}';
  if not found and earlier <> acknowledged_token then
    return false;
  end if;
  update asyncq._handoff_slots as slot
    set token = _open_slot.token, task_ids = _open_slot.task_ids, batchable_ids = _open_slot.batchable_ids,
      channel = _open_slot.channel
    where slot.worker_id = worker;
  insert into asyncq._batches
      (lock_token, locked_at, locked_by, unsettled, ids, run_at, created_at, task_id, priority, max_attempts, payload)
    values (_open_slot.token, asyncq.now(), worker, '', '{}', '{}', '{}', '{}', '{}', '{}', '{}');
  return true;
end
$$;

-- Whether a worker that listens opens hand-off slots, so that an add should look for one. The LISTEN connections of
-- such workers share a lock in memory, which ends with them. Of adds that check at once all but one get true.
create or replace function asyncq._has_open_slot() returns boolean
  language sql volatile
  as $$
  select case
    when pg_catalog.pg_try_advisory_lock(asyncq._lock_space(), -2147483648)
    then not pg_catalog.pg_advisory_unlock(asyncq._lock_space(), -2147483648)
    else true
  end
  $$;

-- Whether a worker that opens hand-off slots listens: its LISTEN connection holds a lock of its own, which ends with
-- it. Adds that check share the lock with each other, as in _has_on_call.
create or replace function asyncq._is_listening(worker int) returns boolean
  language sql volatile
  as $$
  select case
    when pg_catalog.pg_try_advisory_lock_shared(asyncq._lock_space(), -1 - worker)
    then not pg_catalog.pg_advisory_unlock_shared(asyncq._lock_space(), -1 - worker)
    else true
  end
  $$;

-- Whether a job may be handed to a worker. No rescue has declared it dead, and its lock is not in doubt. By the real
-- clock it has missed fewer than two of the three beats of a lease.
create or replace function asyncq._is_responsive(worker asyncq._workers) returns boolean
  language sql volatile parallel safe
  as $$
  select worker.died_at is null and worker.doubted_at is null
    and worker.last_seen operator(pg_catalog.+) (worker.lease operator(pg_catalog.*) 0.67::pg_catalog.float8)
      operator(pg_catalog.>=) pg_catalog.clock_timestamp()
  $$;
