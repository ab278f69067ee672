-- Settle the gates that all running statements know. This takes two calls. The first one finds the change committed,
-- so its transaction has a later number than each statement that does not know the gate. The other one finds that
-- these have ended. A gate that another transaction locks is skipped. Returns the number of gates that were found.
--
-- A fetch says each claim to the gate of its limit, and an end inserts a wakeup of the gate. A statement that began
-- before the limit got its total, or the task its limit, does neither. So the number is not known until all such
-- statements have ended. Meanwhile each fetch that locks the gate counts the claims.
create or replace function asyncq._settle_gates() returns int
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
declare
  horizon constant xid8 := pg_snapshot_xmin(pg_current_snapshot());
  locked bigint[];
begin
  locked := array(
    select held.id from asyncq._partitions as held
    where held.id in (
        select asyncq._gate(of_all.id) from asyncq._limits as of_all where of_all.total is not null or of_all.total_rate is not null)
      and (held.recount_since < horizon or held.recount_since = asyncq._never())
    order by held.id for no key update skip locked);
  -- A statement of its own, whose snapshot is newer than the locks.
  update asyncq._partitions as held
    set running = case when held.recount_since < horizon then asyncq._recounted(held.id) else held.running end,
      recount_since = case when held.recount_since < horizon then null else pg_current_xact_id() end
    where held.id = any(locked);
  return cardinality(locked);
end
$$;

-- The number of a transaction that no transaction ever has.
create or replace function asyncq._never() returns xid8
  language sql immutable parallel safe
  as $$ select '18446744073709551615'::xid8 $$;

-- Let the gates of these limits be counted by each fetch from now on: the tasks of the limits have changed.
create or replace function asyncq._recount_gates(limit_ids smallint[]) returns void
  language sql volatile
  as $$
  update asyncq._partitions as held set recount_since = asyncq._never(), changed_at = asyncq.clock()
  where held.id in (select asyncq._gate(changed.id) from unnest(limit_ids) as changed(id))
  $$;

-- The number that a gate has to count: its claims, and the ends that no fetch has counted yet. The caller has locked
-- the gate. The statement has a snapshot of its own, which is newer than the lock: it shows the claims of all
-- fetches that held the lock before.
create or replace function asyncq._recounted(gate bigint) returns int
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
begin
  return asyncq._claims_behind((gate >> 48)::smallint) + (
    select coalesce(sum(ended.freed), 0) from asyncq._wakeups as ended where ended.partition = gate and ended.freed > 0);
end
$$;

-- How many claims of jobs of a limit there are.
create or replace function asyncq._claims_behind(limit_id smallint) returns int
  language sql stable
  as $$
  select count(*)::int from asyncq._all_jobs() as job
  where job.locked_at is not null and job.partition is not null
    and job.task_id in (select task.id from asyncq._tasks as task where task.limit_id = _claims_behind.limit_id)
  $$;
