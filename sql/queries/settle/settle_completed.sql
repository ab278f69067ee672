-- settle_completed(worker int, ids text, tokens text, results text, ages text) -> written text
-- Delete jobs that ended well and wake their partitions, if this worker still has these claims. ids are sorted, tokens
-- are parallel to them: width_bucket finds the position of an id by binary search. All are texts of arrays: the driver
-- writes a text faster than an array, and would query the catalog before the first array. Rows that another transaction
-- locks are skipped. Jobs that were cancelled, have a rerun or are to be kept are left to settle_rest. So are rows that
-- change at this moment, which have moved from where they were locked. Jobs that were claimed in a batch are closed in
-- it, and the batch is deleted with its last unsettled one.
-- results and ages are null unless a job may be kept. results are the return values of the handlers as JSON, with the
-- character U+001E between them, and nothing for none; ages are the microseconds that the runs took. A job is then kept
-- if _tasks says so for its task.
-- written has the ids of the settled jobs, null for all, since rows would cost the client more than anything else here.
with given as materialized (
  select $2::text::bigint[] as ids, $3::text::bigint[] as tokens, string_to_array($4::text, chr(30), '') as results,
    $5::text::bigint[] as ages),
batches as materialized (
  -- `||` makes a copy in memory. Otherwise the arrays would be read from TOAST for each job.
  select ctid as row_ctid, lock_token, unsettled, ids || '{}'::bigint[] as ids,
    partition || '{}'::bigint[] as partition, case when partition is not null then task_id || '{}'::int[] end as task_ids
  from asyncq._batches
  where locked_by = $1 and lock_token = any((select tokens from given)::bigint[])
  for update skip locked),
closed as materialized (
  select batches.row_ctid, batches.lock_token, bit_and(set_bit(batches.unsettled, width_bucket(ended.id, batches.ids) - 1, 0)) as unsettled,
    array_agg(ended.id) as ids, array_agg(batches.partition[width_bucket(ended.id, batches.ids)]) as partitions,
    array_agg(batches.task_ids[width_bucket(ended.id, batches.ids)]) as task_ids
  from batches
  join unnest((select ids from given), (select tokens from given)) as ended(id, token) on ended.token = batches.lock_token
  where case when batches.ids[width_bucket(ended.id, batches.ids)] = ended.id
    then get_bit(batches.unsettled, width_bucket(ended.id, batches.ids) - 1) = 1 end
  group by batches.row_ctid, batches.lock_token),
removed as (
  delete from asyncq._batches as batch where ctid = any(array(select row_ctid from closed where bit_count(unsettled) = 0))
  returning lock_token, case when $4::text is not null then asyncq._keep_batch(
    batch, (select ids from closed where closed.lock_token = batch.lock_token), (select ids from given), (select results from given),
    (select ages from given)) end),
kept_open as (
  update asyncq._batches as batch set unsettled = (select closed.unsettled from closed where closed.row_ctid = batch.ctid)
  where ctid = any(array(select row_ctid from closed where bit_count(unsettled) > 0))
  returning lock_token, case when $4::text is not null then asyncq._keep_batch(
    batch, (select ids from closed where closed.lock_token = batch.lock_token), (select ids from given),
    (select results from given), (select ages from given)) end),
-- If all jobs are closed, _jobs is not read.
others as materialized (
  select case when (select coalesce(sum(cardinality(ids)), 0) from closed) < cardinality(ids) then ids end as ids from given),
held as materialized (
  select ctid from asyncq._jobs
  where id = any((select ids from others)::bigint[]) and locked_by = $1
    and lock_token = ((select tokens from given)::bigint[])[width_bucket(id, (select ids from given)::bigint[])]
    and keep_until is null and rerun is null and cancelled_at is null
  order by id for update skip locked),
gone as (
  delete from asyncq._jobs as job where ctid = any(array(select ctid from held))
  returning id, partition, task_id, case when $4::text is not null then asyncq._keep_completed(
    job, (select ids from given), (select results from given), (select ages from given)) end),
settled as materialized (
  select id, partition, task_id from gone
  union all
  select unnest(ids), unnest(partitions), unnest(task_ids) from closed
  where lock_token in (select lock_token from removed union all select lock_token from kept_open)),
woken as (
  insert into asyncq._wakeups (at, partition, job_id, task_id, freed, priority)
    select wakeup.at, wakeup.partition, wakeup.job_id, wakeup.task_id, wakeup.freed, wakeup.priority
    from (
      select array_agg(partition) as partitions, array_agg(task_id) as task_ids from settled
      where partition is not null having count(*) > 0) as ended
    cross join lateral asyncq._ended_wakeups(ended.partitions, ended.task_ids) as wakeup)
select case when count(*) < cardinality((select ids from given)) then coalesce(array_agg(id), '{}')::text end as written
from settled
