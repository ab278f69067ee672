-- claim_next(worker int, ids text, tokens text, max int, token bigint, task_ids text, forbidden_flags text[], now timestamptz, results text, ages text) -> settled bigint, asyncq._claim.*
-- For jobs of queues that are in no batch: do as settle_completed, and in the same statement claim the next jobs of up
-- to max queues. Of such a partition as many jobs run as before, so its row is not written. The next job is the first
-- that is ready. If it is not due, not for this worker, or locked by another transaction, the partition is woken, and a
-- fetch decides. So it is if the partition is paused, or its limit is less than what runs: one start may pass at that
-- moment. A start that a rate counts is left to a fetch too, and so is one that another gate counts than the end.
-- results and ages are those of settle_completed.
-- Rows: first one for each settled job, with its id in settled, then the claims.
with given as materialized (
  select $2::text::bigint[] as ids, $3::text::bigint[] as tokens, string_to_array($9::text, chr(30), '') as results,
    $10::text::bigint[] as ages),
held as materialized (
  select id from asyncq._jobs
  where id = any((select ids from given)::bigint[]) and locked_by = $1
    and lock_token = ((select tokens from given)::bigint[])[width_bucket(id, (select ids from given)::bigint[])]
    and keep_until is null and rerun is null and cancelled_at is null
  order by id for update skip locked),
-- First delete the rows, then claim the next ones: two running jobs of one queue cannot be stored, even for a moment.
gone as (
  delete from asyncq._jobs as job where id = any(array(select id from held))
  returning id, partition, task_id, shared, case when $9::text is not null then asyncq._keep_completed(
    job, (select ids from given), (select results from given), (select ages from given)) end),
heads as materialized (
  select head.id, ended.partition, ended.shared, ended.gate
  from (
    select gone.partition, bool_or(gone.shared) as shared, (
        select of_task.id from asyncq._tasks as task join asyncq._limits as of_task on of_task.id = task.limit_id
        where task.id = min(gone.task_id) and (of_task.total is not null or of_task.total_rate is not null)) as gate
    from gone
    where gone.partition is not null
      and not exists (select from asyncq._limits where id = 0 and paused_at is not null)
      and exists (
        select from asyncq._partitions as held
        join asyncq._limits as of_all on of_all.id = (held.id >> 48)::smallint
        where held.id = gone.partition and held.paused_at is null
          and (held.not_before is null or held.not_before <= coalesce($8, asyncq.now()))
          and held.running <= coalesce(held.at_once, of_all.at_once) and coalesce(held.rate, of_all.rate) is null offset 0)
    group by gone.partition having count(*) = 1 limit $4::int) as ended
  cross join lateral (
    select first.id
    from (
      select kind.task_id, kind.priority from asyncq._heads(ended.partition) as kind order by kind.priority offset 0) as kind
    cross join lateral (
      select job.id, job.priority, job.run_at from asyncq._jobs as job
      where job.partition = ended.partition and job.task_id = kind.task_id and job.priority = kind.priority
        and asyncq._is_ready(job)
      order by job.run_at, job.id limit 1) as first
    order by first.priority, first.run_at, first.id limit 1) as head),
-- `is true` keeps the index of partitions from being used: with the id it would be read to its end.
next as materialized (
  select job.id, heads.partition, heads.shared
  from heads
  cross join lateral (
    select id from asyncq._jobs as job
    where id = heads.id and (job.partition = heads.partition) is true
      and asyncq._is_ready(job) and asyncq._is_due(job, coalesce($8, asyncq.now()))
      and asyncq._is_known(job, (select $6::text::int[])) and asyncq._is_allowed(job, $7)
      and exists (
        select
        from asyncq._tasks as task
        left join asyncq._limits as of_task on of_task.id = task.limit_id
        left join asyncq._partitions as gate on of_task.total is not null and gate.id = asyncq._gate(of_task.id)
        where task.id = job.task_id and task.paused_at is null and of_task.paused_at is null and of_task.total_rate is null
          and (of_task.total is null or gate.running <= of_task.total and gate.recount_since is null and of_task.id = heads.gate)
          and (of_task.total is not null or heads.gate is null) offset 0)
    for update skip locked) as job),
woken as (
  insert into asyncq._wakeups (at, partition, job_id, task_id, freed, priority)
    select wakeup.at, wakeup.partition, wakeup.job_id, wakeup.task_id, wakeup.freed, wakeup.priority
    from (
      select array_agg(partition) as partitions, array_agg(task_id) as task_ids from gone
      where partition is not null and partition not in (select partition from next) having count(*) > 0) as ended
    cross join lateral asyncq._ended_wakeups(ended.partitions, ended.task_ids) as wakeup),
claimed as (
  update asyncq._jobs as job
  set locked_by = $1, locked_at = coalesce($8, asyncq.now()), lock_token = $5,
    shared = (select next.shared from next where next.id = job.id)
  where id = any(array(select id from next))
  returning (asyncq._claimed(job)).*)
select gone.id as settled, claimed.* from gone full join claimed on false
