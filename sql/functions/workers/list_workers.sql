-- The workers that have a row, and those that have claims without a row, with their numbers of running jobs.
--
--   state    what is known of it
--   live     it proves that it is alive
--   doubted  its connection has ended; it has a second to prove that it is alive
--   dead     any worker rescues its jobs, at the next check
--   unknown  it has no row: its jobs are rescued by a thorough check, some minutes later
create or replace function asyncq._list_workers()
  returns table (
    id int, host text, pid int, state text, running bigint, concurrency int, started_at timestamptz, last_seen timestamptz,
    silent_s float8, lease_s float8, locks boolean, tasks text[], stuck bigint[],
    queues text[], exclude text[])
  language sql volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
  as $$
  select coalesce(worker.id, claims.locked_by), worker.host, worker.pid,
    case
      when worker.id is null then 'unknown'
      when not asyncq._is_live(worker) then 'dead'
      when worker.locks and worker.doubted_at is not null then 'doubted'
      else 'live'
    end,
    coalesce(claims.running, 0), worker.concurrency, worker.started_at, worker.last_seen,
    extract(epoch from clock_timestamp() - worker.last_seen)::float8, extract(epoch from worker.lease)::float8,
    worker.locks, worker.tasks, coalesce(worker.stuck, '{}'), worker.queues,
    coalesce(worker.exclude, '{}')
  from asyncq._workers as worker
  full join (
    select job.locked_by, count(*) as running from asyncq._all_jobs() as job where job.locked_at is not null
    group by job.locked_by) as claims on claims.locked_by = worker.id
  order by 1
  $$;

-- The workers, as list_workers of the client shows them; for roles that may not read the tables.
create or replace function asyncq.workers()
  returns table (
    id int, host text, pid int, state text, running bigint, concurrency int, started_at timestamptz, last_seen timestamptz,
    silent_s float8, lease_s float8, locks boolean, tasks text[], stuck bigint[])
  language sql volatile security definer
  set search_path = pg_catalog, pg_temp
  as $$
  select id, host, pid, state, running, concurrency, started_at, last_seen, silent_s, lease_s, locks, tasks, stuck
  from asyncq._list_workers()
  $$;
