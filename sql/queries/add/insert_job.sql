-- insert_job(identifier text, payload json, max_attempts int, priority int, looks bool) -> id bigint, told void
-- Add one plain job. No row, and nothing is done, if the task is not stored, or if the statement looks for workers that wait for
-- such a job, and there is one.
-- No bare name or operator stands here that the server does not match exactly.
insert into asyncq._jobs (run_at, created_at, updated_at, task_id, priority, max_attempts, payload)
select asyncq.now(), asyncq.now(), asyncq.now(), known.id, asyncq._priority($4::int), asyncq._max_attempts($3::int), $2::json
from asyncq._tasks as known
where known.identifier = $1::text and known.retired_in is null
  and not ($5::bool and asyncq._fits_batch($2::json) and asyncq._has_offers())
returning id, asyncq._wake_workers() as told
