-- Begin the transaction of a run: note its number, and lock the job for as long as it is open. Called first in it.
-- Adds of the job's key and cancel_jobs pass a key share lock; what would end the claim (settle, rescue, return) does not, and
-- skips the row: it belongs to a transaction that lives. An add that has locked the job's key would wait for a
-- stronger lock, and deadlock with a handler that needs this key lock.
-- Returns the transaction's number, its server process, and the claim as this transaction sees it:
--
--   locked      it exists, and is locked now
--   batched     it exists in a batch: nothing is locked
--   cancelled   its job was cancelled, or ended a moment ago
--   gone        it is gone; or the snapshot of this transaction is older than the claim
create or replace function asyncq._lock_claim(worker int, job bigint, token bigint)
  returns table (xid text, pid int, state text)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
  as $$
declare
  number constant text := pg_current_xact_id();
begin
  -- The server is to notice within half a minute that the worker's machine is gone: until then nobody else gets the job.
  perform set_config('tcp_keepalives_idle', '10', true), set_config('tcp_keepalives_interval', '5', true),
    set_config('tcp_keepalives_count', '4', true);
  -- A name by which everybody sees whose it is, and _end_transactions finds it.
  perform set_config('application_name', format('asyncq worker %s job %s', worker, job), true);
  -- One statement: with two snapshots a batch that is split in between would be seen in neither place.
  return query
    with standing as materialized (
      select held.id from asyncq._jobs as held
      where held.id = job and held.locked_by = worker and held.lock_token = token and held.cancelled_at is null
      for key share)
    select number, pg_backend_pid(), case
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

-- Complete a job inside the transaction that held its claim, and with all that this transaction has done. The same ends as in
-- settle_completed and _settle_rest; but it waits for who holds the row, and judges it as it is then: at REPEATABLE READ and
-- SERIALIZABLE the transaction gets 40001 if somebody has written it meanwhile.
--
--   the claim                  what becomes of the job                            answer
--   stands                     it ends as completed, kept where that was asked    completed
--   was asked for again        it begins anew                                     rerun
--   of a cancelled job         nothing: the transaction is to be rolled back      cancelled
--   cancelled by this one      it ends as cancelled, with what else this one did  cancelled here
--   is gone                    nothing: the transaction is to be rolled back      lost
create or replace function asyncq._complete_claim(worker int, job bigint, token bigint, xid text) returns text
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
  as $$
declare
  serial text;
  is_cancelled boolean;
  is_own_doing boolean;
  is_asked_again boolean;
begin
  if pg_current_xact_id_if_assigned()::text is distinct from xid then
    raise exception using errcode = '25P01',
      message = 'the transaction in which the job was to be completed has ended: its handler must not end it';
  end if;
  -- A version of a row that is seen, although who wrote it is in progress, is of this transaction, or of a savepoint in it.
  select held.queue, held.cancelled_at is not null, held.rerun is not null,
      case when held.cancelled_at is not null
        then pg_xact_status((pg_current_xact_id()::text::bigint - age(held.xmin))::text::xid8) = 'in progress' end
    into serial, is_cancelled, is_asked_again, is_own_doing
    from asyncq._jobs as held
    where held.id = job and held.locked_by = worker and held.lock_token = token
    for update;
  if not found then
    return 'lost';
  elsif is_cancelled and not is_own_doing then
    return 'cancelled';
  elsif is_cancelled then
    perform asyncq._end_jobs(array[job], 'cancelled');
  elsif is_asked_again then
    perform asyncq._rerun_jobs(array[job]);
  else
    perform asyncq._end_jobs(array[job], 'completed');
  end if;
  if serial is not null then
    delete from asyncq._queues where name = serial and locked_by = worker;
    perform asyncq._wake_workers();
  end if;
  return case when is_cancelled then 'cancelled here' when is_asked_again then 'rerun' else 'completed' end;
end
$$;

-- What became of a transaction that was to complete a job, and of which no answer to its COMMIT came.
--
--   the server's word           the claim stands          the claim is gone
--   in progress                 in progress               in progress
--   committed                   unknown: see below        committed
--   aborted                     aborted                   lost
--   none                        unknown                   lost
--
-- The server has no word for a number that is too old, or is none of its own. A claim that stands although the server says
-- committed was completed inside a savepoint that was rolled back, or this is another server, with a past of its own. The claim
-- decides: where it stands, the job has to be settled; where it is gone, somebody has done that.
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
  -- After the word, with a snapshot of its own.
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
