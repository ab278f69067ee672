-- add_jobs(identifiers text[], payloads text[], queue_names text[], run_ats text[], max_attempts int[], job_keys text[], priorities int[], flags text[], job_key_modes text[], metas text[], dedupes text[]) -> ord bigint, outcome text, id bigint, existing_id bigint, existing_state text
-- Runs on callers' connections too, which may have codecs of their own for json, jsonb and timestamptz: so only text and
-- integers cross, and are cast here.
select ord, outcome, id, existing_id, existing_state
from asyncq._add_jobs(
  $1::text[], $2::text[]::json[], $3::text[], $4::text[]::timestamptz[], $5::int[], $6::text[], $7::int[],
  $8::text[]::jsonb[], $9::text[], $10::text[]::jsonb[], $11::text[]::jsonb[])
order by ord
