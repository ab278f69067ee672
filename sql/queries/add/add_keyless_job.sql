-- add_keyless_job(identifier text, payload text, queue_name text, run_at text, extra text) -> id bigint
-- Text only, as in add_jobs.
select asyncq._add_keyless_job(asyncq._new_job(
  $1::text, $2::text::json, $3::text, $4::text::timestamptz, $5::text::jsonb)) as id
