-- insert_job(identifier text, payload text, queue_name text, run_at text, max_attempts int, priority int, flags text, meta text, looks bool) -> id bigint, told void
-- What _add_keyless_job does where no worker takes the job, as one insert that the session plans once. No row, and nothing is done,
-- if it looks for workers that make offers and there is one, or if the task has to be stored.
-- No bare name or operator stands here that the server does not match exactly.
insert into asyncq._jobs as job (run_at, created_at, updated_at, task_id, priority, max_attempts, queue, flags, payload, meta)
select coalesce($4::text::timestamptz, asyncq.now()), asyncq.now(), asyncq.now(), known.id, coalesce($6::int, 0),
  coalesce($5::int, 25), $3::text, $7::text::jsonb, $2::text::json, $8::text::jsonb
from asyncq._tasks as known
where known.identifier = $1::text and known.retired_in is null and not ($9::bool and asyncq._has_offers())
-- As in _add_jobs: the instant decides who is told.
returning id, case when asyncq._is_due(job, asyncq.clock() + interval '60 s') then asyncq._wake_workers() end as told
