-- End the transactions that still hold claims of workers that were silent for twice their lease, or, if workers are given, of
-- these; none within the return window of the server. A rescue skips the rows that such a transaction locks. Its process may be
-- frozen, or its connection open only on this side. The transaction is rolled back, and the rescue returns its job.
-- Transactions are known by the name that _lock_claim gives them, which they have no longer than they are open. Those of a role that
-- this one may not end are left alone, with a warning: nobody else tells why their jobs wait.
-- Returns what was ended; waits until it is gone, at most a second for each.
create or replace function asyncq._end_transactions(workers int[] default null) returns table (worker_id int, job_id bigint)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = on
  as $$
declare
  silent int[];
  open record;
begin
  silent := coalesce(workers, array(
    select worker.id from asyncq._workers as worker
    where pg_catalog.clock_timestamp() - worker.last_seen > 2 * worker.lease and not asyncq._is_live(worker)));
  if cardinality(silent) = 0 then
    return;
  end if;
  for open in
    select activity.pid, activity.usename, substring(activity.application_name from '^asyncq worker ([0-9]+) ') as worker,
      substring(activity.application_name from '^asyncq worker [0-9]+ job ([0-9]{1,18})$') as job
    from pg_stat_activity as activity
    where activity.datname = current_database()
      and substring(activity.application_name from '^asyncq worker ([0-9]+) ') = any(silent::text[])
  loop
    begin
      if pg_terminate_backend(open.pid, 1000) then
        return query select open.worker::int, open.job::bigint;
      end if;
    exception when insufficient_privilege then
      raise warning using
        message = format('the transaction of worker %s (job %s, server process %s, role %s) cannot be ended by role %s',
          open.worker, open.job, open.pid, open.usename, current_user),
        detail = sqlerrm, hint = 'Let one role run all workers, or grant pg_signal_backend to their roles.';
    end;
  end loop;
end
$$;
