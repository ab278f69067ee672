-- The jobs that workers have claimed, the longest claimed first: at most so many, of 10,000 in rows and 10,000 in
-- batches. is_named: its worker said at its last beat that it has started; the others start in a moment, or ended a
-- moment ago.
create or replace function asyncq.running(most int default 1000)
  returns table (id bigint, task text, queue text, worker_id int, host text, claimed_at timestamptz, running_s float8, attempt int,
    max_attempts int, is_named boolean, is_cancelled boolean)
  language sql volatile security definer
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
  set enable_bitmapscan = off
  set jit = off
  as $$
  select held.id, task.identifier, held.queue, held.locked_by, worker.host, held.locked_at,
    extract(epoch from clock_timestamp() - held.locked_at)::float8, held.attempts + 1, held.max_attempts,
    coalesce(held.id || '/' || held.lock_token = any(worker.started_claims), false), held.is_cancelled
  from (
    (select job.id, job.task_id, job.queue, job.locked_by, job.lock_token, job.locked_at, job.attempts::int, job.max_attempts::int,
      job.cancelled_at is not null as is_cancelled
    from asyncq._jobs as job where job.locked_at is not null limit 10000)
    union all
    (select member.id, member.task_id, member.queue, batch.locked_by, batch.lock_token, batch.locked_at, 0, member.max_attempts, false
    from asyncq._batches as batch
    cross join lateral unnest(batch.ids, batch.task_id, batch.queue, batch.max_attempts) with ordinality
      as member(id, task_id, queue, max_attempts, ord)
    where get_bit(batch.unsettled, member.ord::int - 1) = 1 limit 10000)) as held
  join asyncq._tasks as task on task.id = held.task_id
  left join asyncq._workers as worker on worker.id = held.locked_by
  order by held.locked_at, held.id limit least(most, 10000)
  $$;
