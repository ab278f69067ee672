-- Whether a job could run as far as its row says: nobody runs it, and an attempt is left. The partial indexes of fetch_jobs say
-- the same. This and the three beside it (_is_due, _is_known, _is_allowed) are the only copies of what a fetch asks of a job;
-- they inline, so that indexes are used as if the words stood there.

create or replace function asyncq._is_ready(job asyncq._jobs) returns boolean
  language sql immutable parallel safe
  as $$ select job.locked_by is null and job.attempts < job.max_attempts $$;
