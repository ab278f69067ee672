-- add_at_once(identifier text, payload text, queue_name text, run_at text, max_attempts int, priority int, flags text, meta text) -> id bigint, packs bool
-- As add_keyless_job; and of which kind an offer for this task was that stood when the statement began: whether it was of a batch;
-- null if none did.
select asyncq._add_keyless_job(
    $1::text, $2::text::json, $3::text, $4::text::timestamptz, $5::int, $6::int, $7::text::jsonb, $8::text::jsonb, true) as id,
  (
    select known.id = any(made.packable_ids)
    from asyncq._tasks as known
    join asyncq._offers as made on known.id = any(made.task_ids)
    join asyncq._batches as batch on batch.locked_by = made.worker_id and batch.lock_token = made.token
    where known.identifier = $1::text and batch.ids operator(pg_catalog.=) '{}'::bigint[]
    limit 1
  ) as packs
