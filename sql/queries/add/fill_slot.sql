-- fill_slot(identifier text, payload json, max_attempts int, priority int) -> id bigint, notified void
-- Add one plain job and claim it for a worker that waits for one: the job fills the empty batch of the worker's slot.
-- The message has all that a run needs (asyncq/store/handoff.py). A notification has room for 8,000 bytes.
-- No row, and nothing is done, if no worker waits at this moment, if a batch has no room for the payload, or if the
-- task has a limit or is paused.
-- The batch is locked until the commit. No add waits for another one: it skips a locked batch, and workers that have
-- missed beats. Names and operators are qualified unless the server matches them exactly.
-- Materialized: otherwise each row of the table could find another slot.
with free as materialized (
  select batch.row_ctid, slot.token, slot.channel, known.id as task_id
  from asyncq._tasks as known
  join asyncq._handoff_slots as slot on known.id = any(slot.batchable_ids)
  -- By itself, so that it is always looked up by its key.
  cross join lateral (
    select empty.ctid as row_ctid
    from asyncq._batches as empty
    where empty.locked_by = slot.worker_id and empty.lock_token = slot.token and empty.ids operator(pg_catalog.=) '{}'::bigint[]
      and asyncq._is_listening(slot.worker_id)
      and exists (select from asyncq._workers as worker where worker.id = slot.worker_id and asyncq._is_responsive(worker))
    for no key update skip locked
  ) as batch
  where known.identifier = $1::text and known.retired_in is null and known.paused_at is null and known.limit_id is null
    and not exists (select from asyncq._limits as everything where everything.id = 0::smallint and everything.paused_at is not null)
    and asyncq._fits_batch($2::json)
  limit 1
)
update asyncq._batches as filled
set unsettled = '1', ids = array[pg_catalog.nextval('asyncq._jobs_id_seq')], run_at = array[asyncq.now()], created_at = array[asyncq.now()],
  locked_at = asyncq.now(), task_id = array[free.task_id], priority = array[asyncq._priority($4::int)],
  max_attempts = array[asyncq._max_attempts($3::int)], payload = array[$2::json]
from free
where filled.ctid = free.row_ctid
returning filled.ids[1] as id, pg_catalog.pg_notify(free.channel, pg_catalog.json_build_array(
  free.token, filled.ids[1], free.task_id, filled.max_attempts[1], filled.priority[1],
  -- In microseconds since 1970.
  (extract(epoch from asyncq.now()) operator(pg_catalog.*) 1000000::numeric)::bigint, filled.payload[1], null,
  (extract(epoch from pg_catalog.clock_timestamp()) operator(pg_catalog.*) 1000000::numeric)::bigint)::text) as notified
