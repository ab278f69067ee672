-- End the transactions that still lock claims of dead workers: of these workers, or of those that were silent for twice
-- their lease (null). Within the return window of the server there are none. A rescue skips the rows that such a
-- transaction locks: its process may be frozen, or its connection broken. Then the rescue returns the job.
-- An open transaction has the name that _lock_claim gives it. If this role may not end one, there is a warning: nothing
-- else says why its job waits.
-- Returns the ended transactions; waits for each end, at most a second.
create or replace function asyncq._end_transactions(workers int[] default null) returns table (worker_id int, job_id bigint)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = on
  as $$
declare
  silent constant text[] := coalesce(workers, array(
    select worker.id from asyncq._workers as worker
    where pg_catalog.clock_timestamp() - worker.last_seen > 2 * worker.lease and not asyncq._is_live(worker)));
begin
  if cardinality(silent) > 0 then
    return query
      select open.worker::int, open.job::bigint
      from (
        select activity.pid, activity.usename, substring(activity.application_name from '^asyncq worker ([0-9]+) ') as worker,
          substring(activity.application_name from '^asyncq worker [0-9]+ job ([0-9]{1,18})$') as job
        from pg_stat_activity as activity
        where activity.datname = current_database()
          and substring(activity.application_name from '^asyncq worker ([0-9]+) ') = any(silent)
        offset 0) as open
      where asyncq._end_backend(open.pid, 1000, format(
        'the transaction of worker %s (job %s, server process %s, role %s)', open.worker, open.job, open.pid, open.usename));
  end if;
end
$$;

-- End a server process, and wait for its end so many milliseconds. Warns if this role may not. Returns whether it
-- ended.
create or replace function asyncq._end_backend(backend int, patience_ms bigint, title text) returns boolean
  language plpgsql volatile
  as $$
begin
  return pg_terminate_backend(backend, patience_ms);
exception when insufficient_privilege then
  raise warning using message = format('%s cannot be ended by role %s', title, current_user), detail = sqlerrm,
    hint = 'Let one role run all workers, or grant pg_signal_backend to their roles.';
  return false;
end
$$;
