-- A claimed job as its worker receives it: the one list of these columns. It is inlined. Moments are sent as eight
-- bytes each: to make timestamps of them costs the client a tenth of the CPU that a job takes.
create or replace function asyncq._claimed(job asyncq._jobs) returns asyncq._claim
  language sql stable parallel safe
  as $$
  select row(
    job.id, job.task_id, job.queue, job.lock_token, job.attempts, job.max_attempts, job.interruptions, job.priority,
    job.revision, pg_catalog.timestamptz_send(job.run_at), pg_catalog.timestamptz_send(job.created_at),
    pg_catalog.timestamptz_send(job.updated_at), job.key, job.flags, job.payload, job.meta, job.last_error)::asyncq._claim
  $$;
