-- Complete a job inside the transaction that held its claim, and with all that this transaction has done. The same ends as in
-- settle_completed and settle_special; but it waits for who holds the row, and judges it as it is then: at REPEATABLE READ and
-- SERIALIZABLE the transaction gets 40001 if somebody has written it meanwhile.
--
--   the claim                  what becomes of the job                            answer
--   stands                     it ends as completed, kept where that was asked    completed
--   was asked for again        it begins anew                                     rerun
--   of a cancelled job         nothing: the transaction is to be rolled back      cancelled
--   is gone                    nothing: the transaction is to be rolled back      lost

create or replace function asyncq._complete_held(worker int, job bigint, token bigint, xid text) returns text
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
  as $$
declare
  serial text;
  is_cancelled boolean;
  is_asked_again boolean;
begin
  if pg_current_xact_id_if_assigned()::text is distinct from xid then
    raise exception using errcode = '25P01',
      message = 'the transaction in which the job was to be completed has ended: its handler must not end it';
  end if;
  select held.queue, held.cancelled_at is not null, held.rerun is not null into serial, is_cancelled, is_asked_again
    from asyncq._jobs as held
    where held.id = job and held.locked_by = worker and held.lock_token = token
    for update;
  if not found then
    return 'lost';
  elsif is_cancelled then
    return 'cancelled';
  elsif is_asked_again then
    perform asyncq._begin_anew(array[job]);
  else
    perform asyncq._end_jobs(array[job], 'completed');
  end if;
  if serial is not null then
    delete from asyncq._queues where name = serial and locked_by = worker;
    perform asyncq._wake_workers();
  end if;
  return case when is_asked_again then 'rerun' else 'completed' end;
end
$$;
