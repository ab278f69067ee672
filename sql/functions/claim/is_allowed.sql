-- Whether a worker that forbids these flags (null: none) may run a job.

create or replace function asyncq._is_allowed(job asyncq._jobs, forbidden_flags text[]) returns boolean
  language sql immutable parallel safe
  as $$ select forbidden_flags is null or job.flags is null or not job.flags ?| forbidden_flags $$;
