-- add_jobs(identifiers text, payloads text, queue_names text[], run_ats text, max_attempts int[], job_keys text[], priorities int[], flags text, job_key_modes text, metas text, extras text) -> ids bigint[], ords bigint[], outcomes text[], existing_ids bigint[], existing_states text[]
-- One row, that of _add_many_jobs. Arrays of which every element would be null are null, on both ways.
-- Runs on callers' connections too, which may have codecs of their own for json, jsonb and timestamptz: so only text
-- and integers cross, and are cast here; and so does their search_path: what may match another schema's function is
-- named in full. Values that cannot hold the character U+001E are sent as one text, with that between the elements and
-- nothing for null. The driver takes longer to write an array than all else that a client does for a job.
select ids, ords, outcomes, existing_ids, existing_states
from asyncq._add_many_jobs(
  pg_catalog.string_to_array($1, E'\x1e', ''), pg_catalog.string_to_array($2, E'\x1e', '')::json[], $3::text[],
  pg_catalog.string_to_array($4, E'\x1e', '')::timestamptz[], $5::int[], $6::text[], $7::int[],
  pg_catalog.string_to_array($8, E'\x1e', '')::jsonb[], pg_catalog.string_to_array($9, E'\x1e', ''),
  pg_catalog.string_to_array($10, E'\x1e', '')::jsonb[],
  pg_catalog.string_to_array($11, E'\x1e', '')::jsonb[])
