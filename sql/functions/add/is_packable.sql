-- Whether a ready job may be claimed in a batch: a batch has no room for more than what every job has, nor for
-- a large payload.

create or replace function asyncq._is_packable(job asyncq._jobs) returns boolean
  language sql stable parallel safe
  as $$
  select job.key is null and job.unique_key is null and job.keep_until is null and job.flags is null and job.meta is null
    and job.attempts = 0 and job.interruptions = 0 and job.revision = 0 and job.last_error is null
    and job.updated_at = job.created_at
    and asyncq._fits_batch(job.payload)
  $$;
