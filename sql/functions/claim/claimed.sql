-- A claimed job as its worker receives it: the one list of these columns. It is inlined. Moments are sent as eight
-- bytes each: to make timestamps of them costs the client a tenth of the CPU that a job takes. A moment that the worker
-- obeys is sent as seconds from now, because its clock is another one.
create or replace function asyncq._claimed(job asyncq._jobs) returns asyncq._claim
  language sql stable parallel safe
  as $$
  select row(
    job.id, job.task_id, job.queue, job.lock_token, job.attempts, job.max_attempts, job.interruptions, job.priority,
    job.revision, pg_catalog.timestamptz_send(job.run_at), pg_catalog.timestamptz_send(job.created_at),
    pg_catalog.timestamptz_send(job.updated_at), job.key, job.flags, job.payload, job.meta, job.last_error,
    job.extras, extract(epoch from job.expires_at - asyncq.now()),
    extract(epoch from job.deadline_at - asyncq.now()), job.partition)::asyncq._claim
  $$;

-- Whether a ready job may be claimed in a batch: it has only the fields of a new job, and a small payload and meta.
create or replace function asyncq._is_batchable(job asyncq._jobs) returns boolean
  language sql stable parallel safe
  as $$
  select job.key is null and job.unique_key is null and job.keep_until is null and job.flags is null and job.extras is null
    and job.expires_at is null and job.deadline_at is null
    and job.attempts = 0 and job.interruptions = 0 and job.revision = 0 and job.last_error is null
    and job.updated_at = job.created_at
    and asyncq._fits_batch(job.payload)
    and (job.meta is null
      or pg_catalog.pg_column_size(job.meta) <= 1000 and pg_catalog.pg_column_compression(job.meta) is null)
  $$;

-- Whether a batch has room for a payload. It is written as a whole, so a large payload stays out of line in its row.
create or replace function asyncq._fits_batch(payload json) returns boolean
  language sql stable parallel safe
  as $$ select pg_catalog.pg_column_size(payload) <= 1000 and pg_catalog.pg_column_compression(payload) is null $$;
