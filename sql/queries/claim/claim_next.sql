-- claim_next(worker int, ids text, tokens text, max int, token bigint, task_ids text, forbidden_flags text[], now timestamptz, results text, ages text) -> settled bigint, asyncq._claim.*
-- For jobs of queues that are in no batch: do as settle_completed, and in the same statement claim the next jobs of up
-- to max queues. The rows of these queues in _queues stay. The next job of a queue is the first that is ready. If it is
-- not due, not for this worker, or locked by another transaction, the queue is freed, and a fetch decides.
-- results and ages are those of settle_completed.
-- Rows: first one for each settled job, with its id in settled, then the claims.
with given as materialized (
  select $2::text::bigint[] as ids, $3::text::bigint[] as tokens, string_to_array($9::text, chr(30), '') as results,
    $10::text::bigint[] as ages),
held as materialized (
  select id, queue from asyncq._jobs
  where id = any((select ids from given)::bigint[]) and locked_by = $1
    and lock_token = ((select tokens from given)::bigint[])[width_bucket(id, (select ids from given)::bigint[])]
    and keep_until is null and rerun is null and cancelled_at is null
  order by id for update skip locked),
-- First delete the rows, then claim the next ones: two running jobs of one queue cannot be stored, even for a moment.
gone as (
  delete from asyncq._jobs as job where id = any(array(select id from held))
  returning id, queue, case when $9::text is not null then asyncq._keep_completed(
    job, (select ids from given), (select results from given), (select ages from given)) end),
heads as materialized (
  select head.id, head.queue
  from (select unnest(array(select queue from gone where queue is not null)) as name limit $4::int) as queue
  cross join lateral (
    select id, job.queue from asyncq._jobs as job
    where hashtextextended(job.queue, 0) between hashtextextended(queue.name, 0) and hashtextextended(queue.name, 0)
      and job.queue = queue.name and asyncq._is_ready(job)
    -- In this order only jobs_ready_by_queue fits. jobs_ready_queued would be read job by job.
    order by hashtextextended(job.queue, 0), priority, run_at, id limit 1) as head),
next as materialized (
  select job.id, job.queue
  from heads
  cross join lateral (
    select id, queue from asyncq._jobs as job
    where id = heads.id and queue = heads.queue
      and asyncq._is_ready(job) and asyncq._is_due(job, coalesce($8, asyncq.now()))
      and asyncq._is_known(job, (select $6::text::int[])) and asyncq._is_allowed(job, $7)
    for update skip locked) as job),
freed as (
  delete from asyncq._queues
  where name = any(array(select queue from gone where queue is not null except select queue from next))
    and locked_by = $1),
claimed as (
  update asyncq._jobs as job
  set locked_by = $1, locked_at = coalesce($8, asyncq.now()), lock_token = $5
  where id = any(array(select id from next))
  returning (asyncq._claimed(job)).*)
select gone.id as settled, claimed.* from gone full join claimed on false
