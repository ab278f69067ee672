-- Whether a job's time has come at a moment.

create or replace function asyncq._is_due(job asyncq._jobs, moment timestamptz) returns boolean
  language sql immutable parallel safe
  as $$ select job.run_at <= moment $$;
