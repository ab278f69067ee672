-- Begin the transaction of a run: lock the job until its end. This is the first call in the transaction. Adds of the
-- job's key and cancel_jobs are compatible with a key share lock. Statements that end claims (settle, rescue, return)
-- are not: they skip the row, whose transaction is alive. A stronger lock could deadlock: an add that has locked the
-- job's key would wait for it, while the handler waits for the key lock.
-- Returns the transaction's number, its server process, and the claim as this transaction sees it:
--
--   locked      it exists, and is locked now
--   batched     it exists in a batch; nothing is locked
--   cancelled   its job was cancelled, or ended a moment ago
--   gone        it is gone; or the snapshot of this transaction is older than the claim
create or replace function asyncq._lock_claim(worker int, job bigint, token bigint)
  returns table (xid text, pid int, state text)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
  as $$
begin
  -- Within half a minute the server notices that the worker's machine is gone. Until then no other worker gets the job.
  perform set_config('tcp_keepalives_idle', '10', true), set_config('tcp_keepalives_interval', '5', true),
    set_config('tcp_keepalives_count', '4', true);
  -- _end_transactions finds the transaction by this name.
  perform set_config('application_name', format('asyncq worker %s job %s', worker, job), true);
  -- One statement: with two snapshots a batch that is split in between would be seen in neither place.
  return query
    with standing as materialized (
      select held.id from asyncq._jobs as held
      where held.id = job and held.locked_by = worker and held.lock_token = token and held.cancelled_at is null
      for key share)
    select pg_current_xact_id()::text, pg_backend_pid(), case
      when exists (select from standing) then 'locked'
      when exists (
        select from asyncq._batches as batch
        where batch.locked_by = worker and batch.lock_token = token
          and get_bit(batch.unsettled, array_position(batch.ids, job) - 1) = 1) then 'batched'
      when exists (
        select from asyncq._jobs as ended
        where ended.id = job and ended.locked_by = worker and ended.lock_token = token) then 'cancelled'
      else 'gone'
    end;
end
$$;

-- Complete a job in the transaction that locked its claim, together with all that this transaction has done. The ends
-- are those of settle_completed and _settle_rest. But it waits for other transactions that lock the row, and uses the
-- newest version. At REPEATABLE READ and SERIALIZABLE it gets 40001 if another transaction has changed the row.
-- A rest is JSON text: the items that are left to do. _settle_rest then ends the claim.
--
--   the claim                  what becomes of the job                            answer
--   exists                     it ends as completed, and is kept if requested     completed
--   exists, with a rest        the rest becomes its payload, the claim stays      in part
--   has a rerun                it runs again                                      rerun
--   of a cancelled job         nothing: the transaction has to be rolled back     cancelled
--   cancelled by this one      it ends as cancelled, with the rest of this one    cancelled here
--   is gone                    nothing: the transaction has to be rolled back     lost
--
-- result is the return value of the handler as JSON; fault says why there is none. The run took duration_s.
create or replace function asyncq._complete_claim(
  worker int, job bigint, token bigint, xid text, result text default null, duration_s float8 default null,
  rest text default null, fault text default null) returns text
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
  as $$
declare
  partition bigint;
  task_id int;
  is_cancelled boolean;
  is_own_doing boolean;
  is_asked_again boolean;
begin
  if pg_current_xact_id_if_assigned()::text is distinct from xid then
    raise exception using errcode = '25P01',
      message = 'the transaction in which the job was to be completed has ended: its handler must not end it';
  end if;
  -- A visible version of a row whose writer is in progress was written by this transaction, or a savepoint in it.
  select held.partition, held.task_id, held.cancelled_at is not null, held.rerun is not null,
      case when held.cancelled_at is not null
        then pg_xact_status((pg_current_xact_id()::text::bigint - age(held.xmin))::text::xid8) = 'in progress' end
    into partition, task_id, is_cancelled, is_asked_again, is_own_doing
    from asyncq._jobs as held
    where held.id = job and held.locked_by = worker and held.lock_token = token
    for update;
  if not found then
    return 'lost';
  elsif is_cancelled and not is_own_doing then
    return 'cancelled';
  elsif is_cancelled then
    perform asyncq._end_jobs(array[job], 'cancelled', null, array[duration_s]);
  elsif rest is not null then
    update asyncq._jobs as held set payload = rest::json where held.id = job;
    return 'in part';
  elsif is_asked_again then
    perform asyncq._rerun_jobs(array[job]);
  else
    perform asyncq._end_jobs(array[job], 'completed', array[result], array[duration_s], array[fault]);
  end if;
  if partition is not null then
    perform asyncq._wake_partitions(array[job]);
    perform asyncq._wake_ended(array[partition], array[task_id]);
    perform asyncq._wake_workers();
  end if;
  return case when is_cancelled then 'cancelled here' when is_asked_again then 'rerun' else 'completed' end;
end
$$;

-- The status of a transaction that was to complete a job, when its COMMIT got no answer.
--
--   the server says             the claim exists          the claim is gone
--   in progress                 in progress               in progress
--   committed                   unknown: see below        committed
--   aborted                     aborted                   lost
--   nothing                     unknown                   lost
--
-- The server says nothing about a number that is too old, or that is not its own. It may say committed although the
-- claim exists. Then the completion was in a savepoint that was rolled back, or this is another server with its own
-- history. The claim decides: if it exists, the job has to be settled; if it is gone, another statement has done that.
create or replace function asyncq._commit_status(worker int, job bigint, token bigint, xid text) returns text
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
  as $$
declare
  word text;
  stands boolean;
begin
  if pg_is_in_recovery() then
    raise exception using errcode = '25006', message = 'a standby cannot tell what became of a transaction';
  end if;
  begin
    word := pg_xact_status(xid::xid8);
  exception when invalid_parameter_value then
    word := null;
  end;
  if word = 'in progress' then
    return word;
  end if;
  -- After the question, with a snapshot of its own.
  stands := exists (
    select from asyncq._jobs as held where held.id = job and held.locked_by = worker and held.lock_token = token);
  return case
    when stands and word = 'aborted' then 'aborted'
    when stands then 'unknown'
    when word = 'committed' then 'committed'
    else 'lost'
  end;
end
$$;
