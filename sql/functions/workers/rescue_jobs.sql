-- Return the claims of dead workers, and, if thorough, those whose worker has no row; and free the queues of which no job runs.
-- Rows and batches that another transaction locks are skipped; the next rescue finds them. A dead worker's row is removed with
-- the last of its claims. Until then died_at keeps the worker from returning under this id. Cancelled jobs end, and jobs with a
-- pending rerun begin anew. Neither lose an attempt, and neither are returned.
--
-- A job that the worker's last beat named loses an attempt, since it may have killed the worker. The others lose none: they may
-- never have begun, in the worker's buffer or on the way to it. Their last_error begins with WorkerLost, and the next worker
-- names them before they begin. A last attempt is always named before it begins, so that it never runs twice.
--
-- Who is gone is settled first, as a list of ids: a worker's row is there before its first claim, and an id is never used
-- again, so that the list stays right while the jobs are walked over. A condition on _workers in the walk would judge the
-- newest claim of a job by an old snapshot, and take it from a worker that came meanwhile.
create or replace function asyncq._rescue_jobs(thorough boolean)
  returns table (job_id bigint, worker_id int, attempts smallint, max_attempts smallint, ran boolean)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  -- By the index jobs_claims the cost depends on claims, not on waiting jobs. The worker's connection disables sorts for fetches.
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
begin
  -- The rows stay locked: no other rescue takes the same workers, and a late heartbeat waits and is then refused. A worker within
  -- its lease is gone only if its lock is free. If the lock is held, the worker is back, and its next beat will say so.
  gone := array(
    select candidate.id from (
      select worker.id, worker.died_at is not null or not asyncq._is_leased(worker) as is_certain
      from asyncq._workers as worker where not asyncq._is_live(worker) order by worker.id
      for update skip locked) as candidate
    where candidate.is_certain or pg_try_advisory_xact_lock(asyncq._lock_space(), candidate.id));
  -- The death is recorded before any claim is taken: a worker must not go on when the rescue could take only some of its claims.
  with died as (
    update asyncq._workers set died_at = clock_timestamp() where id = any(gone) and died_at is null returning id)
  select array_agg(id) into dead from died;
  perform asyncq._end_listeners(dead);
  if thorough then
    -- Also those of a worker that lives, whose jobs somebody has deleted: it has nothing to settle. A queue and its running job
    -- come and go in one transaction.
    delete from asyncq._queues
      where name = any(array(
        select queue.name from asyncq._queues as queue
        where not exists (select from asyncq._jobs as job where job.queue = queue.name and job.locked_by is not null)
          and queue.name not in (select asyncq._batched_queues())
        order by queue.name for update skip locked));
    if found then
      perform pg_notify('asyncq:jobs', 'all');
    end if;
    gone := gone || array(
      select claim.locked_by from (
        select locked_by from asyncq._jobs where lock_token is not null
        union
        select locked_by from asyncq._batches
        union
        select locked_by from asyncq._queues) as claim
      where not exists (select from asyncq._workers as worker where worker.id = claim.locked_by));
  end if;
  if cardinality(gone) = 0 then
    return;
  end if;
  -- One of them may have been on call.
  perform pg_notify('asyncq:jobs', 'all');
  perform asyncq._split_batches(array(
    select ctid from asyncq._batches where locked_by = any(gone) order by locked_by, lock_token for update skip locked));
  -- A slot ends with its batch. If an add holds the batch, the next rescue sees it. Until then the worker keeps its row and its slot:
  -- should it come back after all, it has to learn that the slot was filled.
  delete from asyncq._handoff_slots
    where worker_id = any(array(
      select slot.worker_id from asyncq._handoff_slots as slot
      where slot.worker_id = any(gone)
        and not exists (select from asyncq._batches as batch where batch.locked_by = slot.worker_id)
      order by slot.worker_id for update skip locked));
  held := array(
    select id from asyncq._jobs where locked_by = any(gone) and lock_token is not null order by id for update skip locked);
  select array_agg(lost.id), array_agg(lost.worker_id), array_agg(lost.ran), array_agg(lost.is_marked),
      array_agg('WorkerLost: worker ' || lost.worker_id || case when lost.left_its_lock
          then ' has died, or lost every connection' else ' was not heard of for longer than its lease' end
        || case when lost.ran then '' else '; whether it had begun this job is not known, so no attempt is counted' end)
    into held, owners, ran, marked, errors
    from (
      select job.id, job.locked_by as worker_id, job.cancelled_at is not null or job.rerun is not null as is_marked,
        asyncq._is_leased(worker) as left_its_lock,
        -- Hashed, once for all claims: a search of each worker's list would compare each claim with each name.
        (job.locked_by, job.id || '/' || job.lock_token) in (
          select beaten.id, claim from asyncq._workers as beaten cross join lateral unnest(beaten.started_claims) as claim
          where beaten.id = any(gone)) as ran
      from asyncq._jobs as job left join asyncq._workers as worker on worker.id = job.locked_by
      where job.id = any(held) and job.locked_by = any(gone)) as lost;
  perform asyncq._release(held, attempts => ran::int[], errors => errors, frees_queues => false);
  return query
    select job.id, claim.worker_id, job.attempts, job.max_attempts, claim.ran
    from unnest(held, owners, ran, marked) as claim(id, worker_id, ran, is_marked)
    join asyncq._jobs as job on job.id = any(array[claim.id])
    where not claim.is_marked;
  -- `offset 0`: each queue and each worker is looked up. An anti-join could read the claims of all workers.
  delete from asyncq._queues
    where name = any(array(
      select queue.name from asyncq._queues as queue
      where queue.locked_by = any(gone)
        and not exists (select from asyncq._jobs as job where job.queue = queue.name and job.locked_by is not null offset 0)
        and queue.name not in (select asyncq._batched_queues())
      order by queue.name for update skip locked));
  delete from asyncq._workers as worker
    where worker.id = any(gone)
      and not exists (select from asyncq._jobs as job where job.locked_by = worker.id and job.lock_token is not null offset 0)
      and not exists (select from asyncq._batches as batch where batch.locked_by = worker.id)
      and not exists (select from asyncq._queues as queue where queue.locked_by = worker.id)
      and not exists (select from asyncq._handoff_slots as slot where slot.worker_id = worker.id);
end
$$;

-- End the LISTEN connections of workers that were just declared dead. A frozen process does not read its connection, and the
-- server cannot trim its notification queue. When the queue is full, every NOTIFY on the server fails. A worker that lives after
-- all connects anew. A connection is found by the lock that it holds for its worker, see lock_listener.
-- A connection that this role may not end gets a warning.
create or replace function asyncq._end_listeners(workers int[]) returns void
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
declare
  open record;
begin
  for open in
    select held.pid, worker.id
    from unnest(workers) as worker(id)
    join pg_locks as held on held.objid = (-1 - worker.id)::oid
    where held.locktype = 'advisory' and held.classid = asyncq._lock_space()::oid and held.objsubid = 2
      and held.database = (select oid from pg_database where datname = current_database())
      and held.mode = 'ExclusiveLock' and held.granted and held.pid <> pg_backend_pid()
  loop
    begin
      perform pg_terminate_backend(open.pid);
    exception when insufficient_privilege then
      raise warning using
        message = format('the LISTEN connection of worker %s (server process %s) cannot be ended by role %s',
          open.id, open.pid, current_user),
        detail = sqlerrm, hint = 'Let one role run all workers, or grant pg_signal_backend to their roles.';
    end;
  end loop;
end
$$;
