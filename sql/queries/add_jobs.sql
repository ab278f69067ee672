-- add_jobs(identifiers text, payloads text, queue_names text[], run_ats text, max_attempts int[], job_keys text[], priorities int[], flags text, job_key_modes text, metas text, dedupes text) -> ids bigint[], ords bigint[], outcomes text[], existing_ids bigint[], existing_states text[]
-- One row: the ids of all, in the order of the specs; and of those to which there is more to say than that they were added, which
-- they are, and what it is. Arrays of which every element would be null are null, on both ways.
-- Runs on callers' connections too, which may have codecs of their own for json, jsonb and timestamptz: so only text and
-- integers cross, and are cast here; and so does their search_path: what may match another schema's function is named in full.
-- What cannot hold the character U+001E comes as one text with that between the elements, nothing for null: the driver takes
-- longer to write an array than all else that a client does for a job.
select
  pg_catalog.array_agg(id order by ord) as ids,
  pg_catalog.array_agg(ord order by ord) filter (where is_special) as ords,
  pg_catalog.array_agg(outcome order by ord) filter (where is_special) as outcomes,
  pg_catalog.array_agg(existing_id order by ord) filter (where is_special) as existing_ids,
  pg_catalog.array_agg(existing_state order by ord) filter (where is_special) as existing_states
from (
  select ord, outcome, id, existing_id, existing_state, outcome <> 'added' or existing_id is not null as is_special
  from asyncq._add_jobs(
    pg_catalog.string_to_array($1, E'\x1e', ''), pg_catalog.string_to_array($2, E'\x1e', '')::json[], $3::text[],
    pg_catalog.string_to_array($4, E'\x1e', '')::timestamptz[], $5::int[], $6::text[], $7::int[],
    pg_catalog.string_to_array($8, E'\x1e', '')::jsonb[], pg_catalog.string_to_array($9, E'\x1e', ''),
    pg_catalog.string_to_array($10, E'\x1e', '')::jsonb[],
    pg_catalog.string_to_array($11, E'\x1e', '')::jsonb[])) as added
