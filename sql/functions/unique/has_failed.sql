-- Whether a job is discarded: no attempt is left, and nobody runs it.

create or replace function asyncq._has_failed(job asyncq._jobs) returns boolean
  language sql immutable parallel safe
  as $$ select job.locked_by is null and job.attempts >= job.max_attempts $$;
