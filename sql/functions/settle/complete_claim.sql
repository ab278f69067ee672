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
