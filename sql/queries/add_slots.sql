-- add_slots(crontabs text[], slots timestamptz[], identifiers text[], payloads text[], queue_names text[], max_attempts int[], job_keys text[], priorities int[], flags text[], job_key_modes text[], dedupes text[]) -> ord bigint, outcome text, id bigint, code text, said text
select ord, outcome, id, code, said
from asyncq._add_slots(
  $1::text[], $2::timestamptz[], $3::text[], $4::text[]::json[], $5::text[], $6::int[], $7::text[], $8::int[],
  $9::text[]::jsonb[], $10::text[], $11::text[]::jsonb[])
order by ord
