-- add_keyless_job(identifier text, payload text, queue_name text, run_at text, max_attempts int, priority int, flags text, meta text) -> id bigint
-- Text and integers only, as in add_jobs.
select asyncq._add_keyless_job(
  $1::text, $2::text::json, $3::text, $4::text::timestamptz, $5::int, $6::int, $7::text::jsonb, $8::text::jsonb) as id
