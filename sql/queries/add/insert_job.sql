-- insert_job(identifier text, payload json, max_attempts int, priority int, checks_slots bool) -> id bigint, notified void, woken void
-- Add one plain job. No row, and nothing is done, if the task is not stored, or if checks_slots and a slot is open.
-- Names and operators are qualified unless the server matches them exactly.
insert into asyncq._jobs (run_at, created_at, updated_at, task_id, priority, max_attempts, partition, payload)
select asyncq.now(), asyncq.now(), asyncq.now(), known.id, asyncq._priority($4::int), asyncq._max_attempts($3::int),
  case when known.limit_id is not null then asyncq._partition_of(known.id, null, $2::json) end, $2::json
from asyncq._tasks as known
where known.identifier = $1::text and known.retired_in is null
  and not ($5::bool and known.limit_id is null and asyncq._fits_batch($2::json) and asyncq._has_open_slot())
returning id, asyncq._wake_workers() as notified,
  case when partition is not null then asyncq._wake_partitions(array[id]) end as woken
