-- The keys of a limit that have jobs or were set by hand, or a queue: those with most running jobs first. Keys are
-- found among the first 1,000 with running jobs, and the first 1,000 with waiting ones.
--   waiting  jobs that have not started, counted to 1,000
--   may      how many may run at once; null: as many as there are
--   next_at  when the next job may start, if that depends on a time
--   why      why the next job does not start now: paused, backed_off, rate, partition_full; null: it may start
create or replace function asyncq.partitions(limit_name text, most int default 100)
  returns table (key text, waiting int, running int, may int, next_at timestamptz, why text)
  language plpgsql stable
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
  as $$
#variable_conflict use_column
declare
  wanted constant smallint := (select held.id from asyncq._limits as held where held.name = limit_name);
  first constant bigint := coalesce(wanted::bigint << 48, asyncq._partition(1::smallint, limit_name));
  last constant bigint := coalesce(asyncq._gate(wanted) - 1, first);
begin
  if most is null or most not between 1 and 1000 then
    raise exception using errcode = '22023', column = 'most', message = 'most must lie between 1 and 1000, got ' || coalesce(most::text, 'null');
  elsif wanted is null and not exists (select from asyncq._partitions as held where held.id = first)
    and not exists (select from asyncq._jobs as job where job.partition = first)
  then
    raise exception using errcode = '22023', column = 'limit_name', message = 'no worker has declared a limit ' || limit_name || ', and no queue has this name';
  end if;
  return query
    with recursive ready(id, number) as (
      (select job.partition, 1 from asyncq._jobs as job
        where job.partition between first and last and asyncq._is_ready(job) order by job.partition limit 1)
      union all
      select next.id, ready.number + 1 from ready
      cross join lateral (
        select job.partition as id from asyncq._jobs as job
        where job.partition > ready.id and job.partition <= last and asyncq._is_ready(job) order by job.partition limit 1) as next
      where ready.number < 1000),
    chosen as (
      select ready.id from ready
      union
      select held.id from (
        select partition.id from asyncq._partitions as partition
        where partition.id between first and last and (partition.running > 0 or partition.overrides is not null)
        order by partition.running desc limit 1000) as held)
    select left(asyncq._key_of(chosen.id), 128), state.waiting, state.running, state.may, state.next_at, state.reason
    from chosen cross join lateral asyncq._partition_state(chosen.id, asyncq.clock()) as state
    order by state.running desc, state.waiting desc, chosen.id limit most;
end
$$;

-- The state of a partition at a moment; the columns are those of partitions. Of its waiting jobs so many are counted.
create or replace function asyncq._partition_state(partition_id bigint, moment timestamptz, most_waiting int default 1000)
  returns table (waiting int, running int, may int, next_at timestamptz, reason text)
  language sql stable
  set search_path = pg_catalog, pg_temp
  as $$
  select ready.jobs, counted.running, valid.at_once,
    case counted.reason when 'backed_off' then held.not_before
      when 'rate' then asyncq._allowed_at(valid.per_s, held.cell, held.cells, moment) end,
    counted.reason
  from asyncq._limits as of_all
  left join asyncq._partitions as held on held.id = partition_id
  cross join lateral (
    select coalesce(held.at_once, of_all.at_once) as at_once, coalesce(held.rate, of_all.rate) as rate,
      coalesce(held.per_s, of_all.per_s) as per_s) as valid
  cross join lateral (
    select greatest(0, coalesce(held.running, 0) - coalesce(sum(wakeup.freed), 0)::int) as running
    from asyncq._wakeups as wakeup where wakeup.partition = partition_id and wakeup.freed > 0) as now_running
  cross join lateral (
    select count(*)::int as jobs
    from (select from asyncq._jobs as job where job.partition = partition_id and asyncq._is_ready(job) limit most_waiting) as waiting) as ready
  cross join lateral (
    select now_running.running, case
      when held.paused_at is not null or of_all.paused_at is not null then 'paused'
      when held.not_before > moment then 'backed_off'
      when now_running.running >= valid.at_once then 'partition_full'
      when asyncq._allowance(valid.rate, valid.per_s, held.cell, held.cells, moment) <= 0 then 'rate' end as reason) as counted
  where of_all.id = (partition_id >> 48)::smallint
  $$;

-- The key of a partition: as it is stored, else as one of its jobs has it; null if none has.
create or replace function asyncq._key_of(partition_id bigint) returns text
  language sql stable
  set search_path = pg_catalog, pg_temp
  as $$
  select coalesce(
    (select held.key from asyncq._partitions as held where held.id = partition_id),
    (
      select coalesce(job.queue, job.payload #>> task.by, '')
      from (select waiting.* from asyncq._jobs as waiting where waiting.partition = partition_id and asyncq._is_ready(waiting) limit 1) as job
      join asyncq._tasks as task on task.id = job.task_id),
    (
      select coalesce(job.queue, job.payload #>> task.by, '')
      from (select claimed.* from asyncq._all_jobs() as claimed where claimed.locked_at is not null and claimed.partition = partition_id limit 1) as job
      join asyncq._tasks as task on task.id = job.task_id))
  $$;
