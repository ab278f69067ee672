-- settle_completed(worker int, ids bigint[], tokens bigint[]) -> id bigint
-- Jobs that ended well are deleted and their queues freed, where this worker still holds the very claim. ids are sorted,
-- tokens stand beside them: width_bucket finds an id's place by binary search. Rows that another transaction holds are
-- skipped, never waited for; those that were cancelled, asked for again or are to be kept are left to settle_special.
with held as materialized (
  select id, queue from asyncq._jobs
  where id = any($2::bigint[]) and locked_by = $1
    and lock_token = ($3::bigint[])[width_bucket(id, $2::bigint[])]
    and keep_until is null and rerun is null and cancelled_at is null
  order by id for update skip locked),
freed as (
  delete from asyncq._queues
  where name = any(array(select queue from held where queue is not null)) and locked_by = $1)
delete from asyncq._jobs where id = any(array(select id from held)) returning id
