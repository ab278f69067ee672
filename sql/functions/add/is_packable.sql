-- Whether a ready job may be claimed in a batch: a batch has no room for more than what every job has, and is
-- written as a whole, so that large payloads, which lie beside their rows, stay where they are.

create or replace function asyncq._is_packable(job asyncq._jobs) returns boolean
  language sql stable parallel safe
  as $$
  select job.key is null and job.unique_key is null and job.keep_until is null and job.flags is null and job.meta is null
    and job.attempts = 0 and job.interruptions = 0 and job.revision = 0 and job.last_error is null
    and job.updated_at = job.created_at
    and pg_catalog.pg_column_size(job.payload) <= 1000 and pg_catalog.pg_column_compression(job.payload) is null
  $$;
