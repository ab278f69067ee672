-- insert_plain_job(identifier text, payload json, max_attempts int, priority int, looks bool) -> id bigint, told void
-- As insert_job, for one that can run now and has no queue, flags or meta: half of the expressions.
insert into asyncq._jobs (run_at, created_at, updated_at, task_id, priority, max_attempts, payload)
select asyncq.now(), asyncq.now(), asyncq.now(), known.id, coalesce($4::int, 0), coalesce($3::int, 25), $2::json
from asyncq._tasks as known
where known.identifier = $1::text and known.retired_in is null and not ($5::bool and asyncq._has_offers())
returning id, asyncq._wake_workers() as told
