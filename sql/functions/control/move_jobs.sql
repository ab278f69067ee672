-- Move jobs whose task has got another limit into their new partitions: of the next so many jobs after an id, by their
-- ids. A fetch does not look for such jobs outside of their partitions. The walk is repeated: it skips locked jobs, and
-- an open add may store another one behind it.
--   found    how many jobs had another partition, moved or not
--   last_id  the last job of the page; null: it was the last page, or there is nothing to move
--   horizon  all transactions before this one have ended: only a walk that began after the change sees all jobs
-- Running jobs are moved too, by the first page of a walk, and counted from now on: the batches of such jobs are split.
create or replace function asyncq._move_jobs(after_id bigint, most int)
  returns table (found bigint, last_id bigint, horizon bigint)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set plan_cache_mode = force_generic_plan
  set enable_seqscan = off
  as $$
#variable_conflict use_column
declare
  tasks int[];
  walked bigint[];
  misplaced bigint[];
  in_batches bigint := 0;
  running bigint[] := '{}';
begin
  -- An add with an old snapshot may have stored a job after the last walk. In time such jobs are the first of all.
  if after_id = 0 and exists (select from asyncq._tasks as task where task.limit_id is not null) then
    update asyncq._tasks as task set unmoved_since = pg_current_xact_id()
      where task.limit_id is not null and task.unmoved_since is null and task.id in (
        select first.task_id from (
          select job.task_id from asyncq._jobs as job where job.partition is null and asyncq._is_ready(job)
          order by job.priority, job.run_at, job.id limit 1000) as first);
  end if;
  tasks := array(
    select task.id from asyncq._tasks as task where task.limit_id is not null and task.unmoved_since is not null);
  if cardinality(tasks) = 0 then
    return query select 0::bigint, null::bigint, null::bigint;
    return;
  end if;
  horizon := pg_snapshot_xmin(pg_current_snapshot())::text::bigint;
  if after_id = 0 then
    select count(*) into in_batches from asyncq._misplaced_batches(tasks);
    perform asyncq._split_batches(array(
      select batch.ctid from asyncq._batches as batch
      where (batch.locked_by, batch.lock_token) in (select locked_by, lock_token from asyncq._misplaced_batches(tasks))
      order by batch.locked_by, batch.lock_token for update skip locked));
    -- Running jobs first: until they are counted, others start beside them.
    running := array(
      select job.id from asyncq._jobs as job
      where job.locked_by is not null and job.locked_at is not null and asyncq._is_known(job, tasks)
        and job.partition is distinct from asyncq._partition_of(job.task_id, job.queue, job.payload));
    perform asyncq._place_jobs(running);
  end if;
  walked := array(select job.id from asyncq._jobs as job where job.id > after_id order by job.id limit most);
  misplaced := array(
    select job.id from asyncq._jobs as job
    where job.id = any(walked) and asyncq._is_known(job, tasks)
      and job.partition is distinct from asyncq._partition_of(job.task_id, job.queue, job.payload));
  perform asyncq._place_jobs(misplaced);
  return query select in_batches + cardinality(running) + cardinality(misplaced),
    case when cardinality(walked) = most then walked[most] end, horizon;
end
$$;

-- The batches in which a job of one of these tasks has another partition than it should.
create or replace function asyncq._misplaced_batches(tasks int[]) returns table (locked_by int, lock_token bigint)
  language sql stable
  as $$
  select batch.locked_by, batch.lock_token from asyncq._batches as batch
  where batch.task_id && tasks
    and exists (
      select
      from unnest(batch.task_id, batch.partition, batch.queue, batch.payload) as job(task_id, partition, queue, payload)
      where job.task_id in (select unnest(tasks))
        and job.partition is distinct from asyncq._partition_of(job.task_id, job.queue, job.payload))
  $$;

-- Put these jobs into their partitions, except locked ones. Those whose task has lost its limit meanwhile stay where
-- they are. Ready jobs get wakeups. Running jobs are counted in the new partition and in the gate of their limit, and
-- end in the old ones.
create or replace function asyncq._place_jobs(ids bigint[]) returns void
  language plpgsql volatile
  as $$
declare
  old_partitions bigint[];
  new_partitions bigint[];
  task_ids int[];
begin
  if cardinality(ids) = 0 then
    return;
  end if;
  with held as materialized (
    select job.id, job.partition as old, asyncq._partition_of(job.task_id, job.queue, job.payload) as new
    from asyncq._jobs as job where job.id = any(ids) order by job.id for no key update skip locked),
  moved as (
    update asyncq._jobs as job set partition = held.new from held where job.id = held.id and held.new is not null
    returning held.old, held.new, job.task_id, job.locked_by)
  select array_agg(moved.old), array_agg(moved.new), array_agg(moved.task_id)
    into old_partitions, new_partitions, task_ids
    from moved where moved.locked_by is not null;
  perform asyncq._wake_ended(old_partitions, task_ids);
  insert into asyncq._partitions as held (id, running, changed_at)
    select claim.partition, count(*), asyncq.clock()
    from (
      select unnest(new_partitions) as partition
      union all
      select asyncq._gate(of_all.id)
      from unnest(task_ids) as given(id)
      join asyncq._tasks as task on task.id = given.id
      join asyncq._limits as of_all on of_all.id = task.limit_id
      where of_all.total is not null or of_all.total_rate is not null) as claim
    group by claim.partition order by claim.partition
    on conflict (id) do update set running = held.running + excluded.running, changed_at = excluded.changed_at;
  perform asyncq._wake_partitions(ids);
end
$$;
