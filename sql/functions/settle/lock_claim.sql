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
