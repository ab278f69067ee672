-- settle_changed(worker int, ids bigint[], tokens bigint[], attempts int[], delays_s float8[], errors text[], interruptions int[], now timestamptz) -> id bigint
-- Jobs that go on living: retried, failed for good, snoozed, interrupted, returned. Those of batches have no rows yet, and are
-- left alone: see unpack. attempts are added; a null delay, error or
-- interruptions keeps what the row has. The fence and the arrays work as in settle_completed; jobs that were cancelled or
-- asked for again are left to settle_special.
with held as materialized (
  select id, queue from asyncq._jobs
  where id = any($2::bigint[]) and locked_by = $1
    and lock_token = ($3::bigint[])[width_bucket(id, $2::bigint[])]
    and cancelled_at is null and rerun is null
  order by id for update skip locked),
freed as (
  delete from asyncq._queues
  where name = any(array(select queue from held where queue is not null)) and locked_by = $1)
update asyncq._jobs
set locked_by = null, locked_at = null, lock_token = null,
  updated_at = coalesce($8::timestamptz, asyncq.now()),
  -- A row whose attempts were used up meanwhile (its key went to a newer request) stays dead.
  attempts = least(attempts + ($4::int[])[width_bucket(id, $2::bigint[])], greatest(attempts, max_attempts)),
  -- A discarded job gets all attempts at once, but has made only one more.
  attempts_made = case when attempts_made is not null or ($4::int[])[width_bucket(id, $2::bigint[])] > 1
    then coalesce(attempts_made, attempts) + least(($4::int[])[width_bucket(id, $2::bigint[])], 1) end,
  run_at = coalesce(
    greatest(run_at, coalesce($8::timestamptz, asyncq.now()))
      + make_interval(secs => ($5::float8[])[width_bucket(id, $2::bigint[])]),
    run_at),
  last_error = coalesce(($6::text[])[width_bucket(id, $2::bigint[])], last_error),
  interruptions = coalesce(($7::int[])[width_bucket(id, $2::bigint[])], interruptions)
where id = any(array(select id from held)) returning id
