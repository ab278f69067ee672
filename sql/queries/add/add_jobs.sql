-- add_jobs(identifiers text, payloads text, queue_names text[], run_ats text, extras text) -> ids text[], ords text[], outcomes text[], existing_ids text[], existing_states text[]
-- One row, that of _add_many_jobs; the parameters are those of _new_job. Arrays of which every element would be null
-- are null, on both ways.
-- Runs on callers' connections too. These may have codecs of their own for json, jsonb and timestamptz: so only text
-- and integers cross, and are cast here. They may have any search_path: so a name that may match another schema's
-- function is qualified.
-- An array whose values cannot hold the character U+001E is sent as one text, with that character between the elements
-- and nothing for null. To write an array takes the driver longer than everything else that a client does for a job.
-- Numbers return as text: before its first array of bigint the driver would query the types of this database.
-- The elements are cast one by one: a cast of the whole array to jsonb[] takes five times as long.
select ids::text[] as ids, ords::text[] as ords, outcomes, existing_ids::text[] as existing_ids, existing_states
from asyncq._add_many_jobs(array(
  select asyncq._new_job(given.identifier, given.payload::json, given.queue_name, given.run_at::timestamptz, given.extra::jsonb)
  from rows from (
    pg_catalog.unnest(pg_catalog.string_to_array($1, E'\x1e', '')),
    pg_catalog.unnest(pg_catalog.string_to_array($2, E'\x1e', '')), pg_catalog.unnest($3::text[]),
    pg_catalog.unnest(pg_catalog.string_to_array($4, E'\x1e', '')),
    pg_catalog.unnest(pg_catalog.string_to_array($5, E'\x1e', '')))
    with ordinality as given(identifier, payload, queue_name, run_at, extra, ord)
  order by given.ord))
