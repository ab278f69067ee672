-- Return the claims of dead workers, and, if thorough, those whose worker has no row. If thorough, also set right what
-- partitions count. Rows and batches that another transaction locks are skipped; the next rescue finds them. A dead
-- worker's row is removed with the last of its claims. Until then died_at keeps the worker from returning under this
-- id. Cancelled jobs end, and jobs with a rerun run again. They lose no attempt, and are not in the result.
--
-- A job loses an attempt if the worker's last beat listed it as started, since it may have killed the worker. The
-- others lose none: they may never have started. Their last_error begins with WorkerLost, and the next worker lists
-- them before they start. A last attempt is always listed before it starts, so that it never runs twice. A lost attempt
-- is recorded in _attempts if keeps_errors is true.
--
-- The dead workers are decided first, as a list of ids. A worker's row exists before its first claim, and an id is
-- never used again, so the list stays right while the jobs are read. A condition on _workers in that statement would
-- compare the newest claim of a job with an old snapshot, and take it from a worker that registered meanwhile.
create or replace function asyncq._rescue_jobs(thorough boolean, keeps_errors boolean default true)
  returns table (job_id bigint, worker_id int, attempts smallint, max_attempts smallint, ran boolean)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  -- By the index jobs_claims the cost depends on claims, not on waiting jobs. The workers disable sorts for fetches.
  set enable_seqscan = off
  set enable_sort = on
  as $$
#variable_conflict use_column
declare
  gone int[];
  dead int[];
  held bigint[];
  owners int[];
  ran boolean[];
  marked boolean[];
  errors text[];
  kinds text[];
begin
  -- The rows stay locked: no other rescue takes the same workers, and a late heartbeat waits and is then refused. A
  -- worker within its lease is gone only if its lock is free. If the lock is held, the worker is back, and will beat.
  gone := array(
    select candidate.id from (
      select worker.id, worker.died_at is not null or not asyncq._is_leased(worker) as is_certain
      from asyncq._workers as worker where not asyncq._is_live(worker) order by worker.id
      for update skip locked) as candidate
    where candidate.is_certain or pg_try_advisory_xact_lock(asyncq._lock_space(), candidate.id));
  -- The death is recorded first: a worker must not go on when the rescue could take only some of its claims.
  with died as (
    update asyncq._workers set died_at = clock_timestamp() where id = any(gone) and died_at is null returning id)
  select array_agg(id) into dead from died;
  -- A frozen process does not read its LISTEN connection, and the server cannot trim its notification queue: when that
  -- is full, every NOTIFY fails. A worker that is alive after all connects again. lock_listener took the lock.
  perform asyncq._end_backend(
      listener.pid, 0, format('the LISTEN connection of worker %s (server process %s)', worker.id, listener.pid))
    from unnest(dead) as worker(id)
    join pg_locks as listener on listener.objid = (-1 - worker.id)::oid
    where listener.locktype = 'advisory' and listener.classid = asyncq._lock_space()::oid and listener.objsubid = 2
      and listener.database = (select oid from pg_database where datname = current_database())
      and listener.mode = 'ExclusiveLock' and listener.granted and listener.pid <> pg_backend_pid();
  if thorough then
    gone := gone || array(
      select claim.locked_by from (
        select locked_by from asyncq._jobs where locked_at is not null
        union
        select locked_by from asyncq._batches) as claim
      where not exists (select from asyncq._workers as worker where worker.id = claim.locked_by));
  end if;
  if cardinality(gone) = 0 and not thorough then
    return;
  end if;
  perform asyncq._split_batches(array(
    select ctid from asyncq._batches where locked_by = any(gone) order by locked_by, lock_token for update skip locked));
  -- A slot ends with its batch. If an add holds the batch, the next rescue sees it. Until then the worker keeps its row
  -- and its slot: if it returns after all, it has to learn that the slot was filled.
  delete from asyncq._handoff_slots
    where worker_id = any(array(
      select slot.worker_id from asyncq._handoff_slots as slot
      where slot.worker_id = any(gone)
        and not exists (select from asyncq._batches as batch where batch.locked_by = slot.worker_id)
      order by slot.worker_id for update skip locked));
  held := array(
    select id from asyncq._jobs where locked_by = any(gone) and locked_at is not null order by id for update skip locked);
  select array_agg(lost.id), array_agg(lost.worker_id), array_agg(lost.ran), array_agg(lost.is_marked),
      array_agg('WorkerLost: worker ' || lost.worker_id || case when lost.left_its_lock
          then ' has died, or lost every connection' else ' was not heard of for longer than its lease' end
        || case when lost.ran then '' else '; whether it had begun this job is not known, so no attempt is counted' end),
      array_agg(case when lost.ran and keeps_errors then 'lost' end)
    into held, owners, ran, marked, errors, kinds
    from (
      select job.id, job.locked_by as worker_id, job.cancelled_at is not null or job.rerun is not null as is_marked,
        asyncq._is_leased(worker) as left_its_lock,
        -- Hashed, once for all claims: a search of each worker's list would compare each claim with each name.
        (job.locked_by, job.id || '/' || job.lock_token) in (
          select beaten.id, claim from asyncq._workers as beaten cross join lateral unnest(beaten.started_claims) as claim
          where beaten.id = any(gone)) as ran
      from asyncq._jobs as job left join asyncq._workers as worker on worker.id = job.locked_by
      where job.id = any(held) and job.locked_by = any(gone)) as lost;
  perform asyncq._release(held, attempts => ran::int[], errors => errors, kinds => kinds);
  return query
    select job.id, claim.worker_id, job.attempts, job.max_attempts, claim.ran
    from unnest(held, owners, ran, marked) as claim(id, worker_id, ran, is_marked)
    join asyncq._jobs as job on job.id = any(array[claim.id])
    where not claim.is_marked;
  -- A dead worker may have been on call.
  if cardinality(gone) > 0 then
    perform pg_notify('asyncq:jobs', 'all');
  end if;
  -- A job that was deleted by hand runs no more, and no wakeup says so.
  if thorough then
    perform asyncq._correct_counts();
  end if;
  delete from asyncq._workers as worker
    where worker.id = any(gone)
      and not exists (select from asyncq._jobs as job where job.locked_by = worker.id and job.locked_at is not null offset 0)
      and not exists (select from asyncq._batches as batch where batch.locked_by = worker.id)
      and not exists (select from asyncq._handoff_slots as slot where slot.worker_id = worker.id);
end
$$;
