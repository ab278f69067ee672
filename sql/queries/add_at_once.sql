-- add_at_once(identifier text, payload text, queue_name text, run_at text, max_attempts int, priority int, flags text, meta text) -> id bigint, meets_offers bool, is_wanted bool
-- As add_keyless_job; and which way the next add of the task goes: whether workers make offers, and whether one for this task stood
-- when the statement began.
select asyncq._add_keyless_job(
    $1::text, $2::text::json, $3::text, $4::text::timestamptz, $5::int, $6::int, $7::text::jsonb, $8::text::jsonb, true) as id,
  asyncq._has_offers() as meets_offers,
  exists (
    select from asyncq._tasks as known
    join asyncq._offers as made on known.id = any(made.task_ids)
    join asyncq._batches as batch on batch.locked_by = made.worker_id and batch.lock_token = made.token
    where known.identifier = $1::text and batch.ids = '{}'::bigint[]) as is_wanted
