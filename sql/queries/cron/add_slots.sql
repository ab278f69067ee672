-- add_slots(crontabs text[], slots timestamptz[], revisions bigint[], identifiers text[], payloads text[], queue_names text[], extras text[]) -> ord bigint, outcome text, id bigint, code text, said text
select ord, outcome, id, code, said
from asyncq._add_slots(
  $1::text[], $2::timestamptz[], $3::bigint[], $4::text[], $5::text[]::json[], $6::text[], $7::text[]::jsonb[])
order by ord
