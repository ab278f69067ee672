-- The wakeups that the end of claims needs. Every statement that ends claims inserts these rows, once:
--   each partition   one for each of its due heads (_heads); the first one has the number of ended claims (freed)
--   without a head   one for a task whose claim has ended, with that number
--   each gate        one with the number of ended claims
-- partitions and task_ids have an element for each claim; a null in partitions: the job has none. It is inlined.
create or replace function asyncq._ended_wakeups(partitions bigint[], task_ids int[])
  returns table (at timestamptz, partition bigint, job_id bigint, task_id int, freed int, priority smallint)
  language sql stable
  as $$
  select case when head.id is null then asyncq.now() else least(head.run_at, asyncq.clock()) end, ended.partition,
    coalesce(head.id, 0), coalesce(head.task_id, ended.task_id),
    case when coalesce(head.is_first, true) then ended.claims else 0 end, coalesce(head.priority, 0::smallint)
  from (
    select claim.partition, min(claim.task_id) as task_id, count(*)::int as claims
    from unnest(partitions, task_ids) as claim(partition, task_id)
    where claim.partition is not null group by claim.partition offset 0) as ended
  left join lateral (
    select first.task_id, first.priority, first.run_at, first.id, row_number() over () = 1 as is_first
    from asyncq._heads(ended.partition) as first
    -- A job that is due later has a wakeup of its own. The second allows for a statement whose moment is another one.
    where first.run_at - interval '1 s' <= asyncq.clock()) as head on true
  union all
  select asyncq.now(), asyncq._gate(gate.id), 0, -gate.id::int, ended.claims, 0::smallint
  from (
    select claim.task_id, count(*)::int as claims from unnest(partitions, task_ids) as claim(partition, task_id)
    where claim.partition is not null group by claim.task_id offset 0) as ended
  cross join lateral (
    select of_all.id from asyncq._tasks as task join asyncq._limits as of_all on of_all.id = task.limit_id
    where task.id = ended.task_id and (of_all.total is not null or of_all.total_rate is not null) offset 0) as gate
  $$;

-- Insert the wakeups of ended claims.
create or replace function asyncq._wake_ended(partitions bigint[], task_ids int[]) returns void
  language plpgsql volatile
  -- A plan for these very arrays would take longer to make than to run.
  set plan_cache_mode = force_generic_plan
  as $$
begin
  insert into asyncq._wakeups (at, partition, job_id, task_id, freed, priority)
    select woken.at, woken.partition, woken.job_id, woken.task_id, woken.freed, woken.priority
    from asyncq._ended_wakeups(partitions, task_ids) as woken;
end
$$;

-- Count the ends that no fetch has counted yet, of partitions that have jobs of several tasks. Then wake these for all
-- their tasks. Without this a job can wait too long: an end inserts wakeups for the tasks of the jobs that it sees. It
-- does not see a job of another task that is added at the same time, and the fetch that sees this job may find the
-- partition full. Then only workers that know the task of the end would look, and perhaps none is left. Partitions that
-- another transaction locks are skipped. Returns the number of partitions that were woken.
create or replace function asyncq._pass_on_ends() returns int
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
  as $$
declare
  mixed bigint[] := array(
    select distinct ended.partition from asyncq._wakeups as ended
    where ended.freed > 0 and ended.task_id > 0
      and exists (select from asyncq._heads(ended.partition) as head where head.task_id <> ended.task_id));
begin
  if cardinality(mixed) > 0 then
    mixed := array(
      select held.id from asyncq._partitions as held where held.id = any(mixed) order by held.id for no key update skip locked);
    -- Statements of their own, with newer snapshots than the locks: the last one sees each job whose wakeup is gone.
    with heard as (
      delete from asyncq._wakeups as ended where ended.partition = any(mixed) and ended.freed > 0
      returning ended.partition, ended.freed)
    update asyncq._partitions as held set running = held.running - ended.freed
      from (select heard.partition, sum(heard.freed)::int as freed from heard group by heard.partition) as ended
      where held.id = ended.partition;
    perform asyncq._wake_heads(mixed);
  end if;
  return cardinality(mixed);
end
$$;

-- Insert the wakeups of jobs that have become ready, and are not pending: for each partition, task, priority and flags
-- one for all due jobs, at the least time, and one for each later time. A look that finds no due job leaves no wakeup
-- for later ones.
-- By itself each job is looked up by its id: together with the other conditions an index of ready jobs would fit too.
create or replace function asyncq._wake_partitions(ids bigint[]) returns void
  language plpgsql volatile
  -- A plan for these very arrays would take longer to make than to run.
  set plan_cache_mode = force_generic_plan
  as $$
begin
  insert into asyncq._wakeups (at, partition, job_id, task_id, priority, flags)
    select min((found.job).run_at), (found.job).partition,
      (pg_catalog.array_agg((found.job).id order by (found.job).run_at, (found.job).id))[1], (found.job).task_id,
      (found.job).priority, (found.job).flags
    from pg_catalog.unnest(ids) as given(id)
    cross join lateral (select stored as job from asyncq._jobs as stored where stored.id = given.id offset 0) as found
    where (found.job).partition is not null and asyncq._is_ready(found.job) and (found.job).due_at is null
    group by (found.job).partition, (found.job).task_id, (found.job).priority, (found.job).flags,
      greatest((found.job).run_at, (select asyncq.clock()));
end
$$;
