-- Return the claims of dead workers: those that were not seen for longer than their lease, and those that have no row.
-- Each rescued job has lost an attempt. Rows that another transaction holds are skipped and found the next time; a dead
-- worker's row goes when none of its claims is left. thorough also looks for claims of workers without a row.

create or replace function asyncq._rescue_jobs(thorough boolean)
  returns table (job_id bigint, worker_id int, attempts smallint, max_attempts smallint)
  language plpgsql volatile
  as $$
#variable_conflict use_column
declare
  dead int[];
begin
  -- The rows stay locked: nobody else rescues the same workers now, and a late heartbeat waits, then finds none.
  dead := array(
    select id from asyncq._workers where last_seen + lease < pg_catalog.clock_timestamp() order by id
    for update skip locked);
  if cardinality(dead) = 0 and not thorough then
    return;
  end if;
  return query
    with held as materialized (
      select job.id, job.locked_by from asyncq._jobs as job
      where job.locked_by is not null
        and not exists (select from asyncq._workers as worker
          where worker.id = job.locked_by and not worker.id = any(dead))
      order by job.id for update skip locked)
    update asyncq._jobs as job
    set attempts = least(job.attempts + 1, greatest(job.attempts, job.max_attempts)),
      last_error = 'WorkerLost: worker ' || job.locked_by || ' was not heard of for longer than its lease',
      locked_by = null, locked_at = null, lock_token = null, updated_at = asyncq.now()
    from held where job.id = any(array(select id from held)) and job.id = held.id
    returning job.id, held.locked_by, job.attempts, job.max_attempts;
  update asyncq._queues as queue set locked_by = null, lock_token = null
    where queue.locked_by is not null
      and not exists (select from asyncq._workers as worker
        where worker.id = queue.locked_by and not worker.id = any(dead))
      and not exists (select from asyncq._jobs as job where job.queue_id = queue.id and job.locked_by is not null);
  delete from asyncq._workers as worker
    where worker.id = any(dead)
      and not exists (select from asyncq._jobs as job where job.locked_by = worker.id);
  perform asyncq._wake_workers();
end
$$;
