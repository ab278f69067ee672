-- add_slots(crontabs text[], slots timestamptz[], revisions bigint[], identifiers text[], payloads text[], queue_names text[], max_attempts int[], job_keys text[], priorities int[], flags text[], job_key_modes text[], extras text[]) -> ord bigint, outcome text, id bigint, code text, said text
select ord, outcome, id, code, said
from asyncq._add_slots(
  $1::text[], $2::timestamptz[], $3::bigint[], $4::text[], $5::text[]::json[], $6::text[], $7::int[], $8::text[], $9::int[],
  $10::text[]::jsonb[], $11::text[], $12::text[]::jsonb[])
order by ord
