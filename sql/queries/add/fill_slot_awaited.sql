-- fill_slot_awaited(identifier text, payload json, max_attempts int, priority int, extras jsonb) -> id bigint, notified void
-- Add one job that its client awaits, and is plain otherwise; claim it for a worker that waits for one, as fill_slot.
-- The job is a row: its end is notified, so its batch would be split, which takes longer than to insert the row at
-- once. The empty batch of the slot is deleted, which says that the slot is filled.
-- extras name the channel of the client. keep_until says that _end_jobs has to write the end.
with free as materialized (
  select batch.row_ctid, slot.worker_id, slot.token, slot.channel, known.id as task_id
  from asyncq._tasks as known
  join asyncq._handoff_slots as slot on known.id = any(slot.batchable_ids)
  cross join lateral (
    select empty.ctid as row_ctid
    from asyncq._batches as empty
    where empty.locked_by = slot.worker_id and empty.lock_token = slot.token and empty.ids operator(pg_catalog.=) '{}'::bigint[]
      and asyncq._is_listening(slot.worker_id)
      and exists (select from asyncq._workers as worker where worker.id = slot.worker_id and asyncq._is_responsive(worker))
    for update skip locked
  ) as batch
  where known.identifier = $1::text and known.retired_in is null and known.paused_at is null and known.limit_id is null
    and not exists (select from asyncq._limits as everything where everything.id = 0::smallint and everything.paused_at is not null)
    and asyncq._fits_batch($2::json)
  limit 1
),
taken as (
  delete from asyncq._batches as empty using free where empty.ctid = free.row_ctid
  returning free.worker_id, free.token, free.channel, free.task_id
),
claimed as (
  insert into asyncq._jobs
      (run_at, created_at, updated_at, locked_at, locked_by, lock_token, task_id, priority, max_attempts, payload, extras, keep_until)
    select asyncq.now(), asyncq.now(), asyncq.now(), asyncq.now(), taken.worker_id, taken.token, taken.task_id,
      asyncq._priority($4::int), asyncq._max_attempts($3::int), $2::json, $5::jsonb, '-infinity'::timestamptz
    from taken
  returning id, lock_token, task_id, max_attempts, priority, payload, extras
)
select claimed.id, pg_catalog.pg_notify(taken.channel, pg_catalog.json_build_array(
  claimed.lock_token, claimed.id, claimed.task_id, claimed.max_attempts, claimed.priority,
  -- In microseconds since 1970.
  (extract(epoch from asyncq.now()) operator(pg_catalog.*) 1000000::numeric)::bigint, claimed.payload, null,
  (extract(epoch from pg_catalog.clock_timestamp()) operator(pg_catalog.*) 1000000::numeric)::bigint, claimed.extras)::text) as notified
from claimed cross join taken
