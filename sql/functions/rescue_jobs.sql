-- Return the claims of dead workers: those that were not seen for longer than their lease, and, if thorough, those that
-- have no row. Each rescued job has lost an attempt. Rows that another transaction holds are skipped and found the next
-- time; a dead worker's row goes when none of its claims is left. Jobs that were cancelled end, those that were asked for again
-- begin anew: neither has lost an attempt, and neither is returned.
--
-- Who is gone is settled first, as a list of ids: a worker's row is there before its first claim, and an id is never used
-- again, so that the list stays right while the jobs are walked over. A condition on _workers in the walk would judge the
-- newest claim of a job by an old snapshot, and take it from a worker that came meanwhile.

create or replace function asyncq._rescue_jobs(thorough boolean)
  returns table (job_id bigint, worker_id int, attempts smallint, max_attempts smallint)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  -- There is no index on locked_by; the worker's connection shuns scans, for the sake of the fetch.
  set enable_seqscan = on
  as $$
#variable_conflict use_column
declare
  gone int[];
  held bigint[];
begin
  -- The rows stay locked: nobody else rescues the same workers now, and a late heartbeat waits, then finds none.
  gone := array(
    select worker.id from asyncq._workers as worker where not asyncq._is_live(worker) order by worker.id
    for update skip locked);
  if thorough then
    gone := gone || array(
      select claim.locked_by from (
        select locked_by from asyncq._jobs where locked_by is not null
        union
        select locked_by from asyncq._queues) as claim
      where not exists (select from asyncq._workers as worker where worker.id = claim.locked_by));
  end if;
  if cardinality(gone) = 0 then
    return;
  end if;
  held := array(select id from asyncq._jobs where locked_by = any(gone) order by id for update skip locked);
  perform asyncq._end_marked(held);
  return query
    with lost as materialized (
      select id, locked_by from asyncq._jobs where id = any(held) and locked_by = any(gone))
    update asyncq._jobs as job
    set attempts = least(job.attempts + 1, greatest(job.attempts, job.max_attempts)),
      last_error = 'WorkerLost: worker ' || job.locked_by || ' was not heard of for longer than its lease',
      locked_by = null, locked_at = null, lock_token = null, updated_at = asyncq.now()
    from lost where job.id = any(array(select id from lost)) and job.id = lost.id
    returning job.id, lost.locked_by, job.attempts, job.max_attempts;
  delete from asyncq._queues
    where name = any(array(
      select queue.name from asyncq._queues as queue
      where queue.locked_by = any(gone)
        and not exists (select from asyncq._jobs as job where job.queue = queue.name and job.locked_by is not null)
      order by queue.name for update skip locked));
  if found or cardinality(held) > 0 then
    perform asyncq._wake_workers();
  end if;
  delete from asyncq._workers as worker
    where worker.id = any(gone)
      and not exists (select from asyncq._jobs as job where job.locked_by = worker.id)
      and not exists (select from asyncq._queues as queue where queue.locked_by = worker.id);
end
$$;
