-- The state of a job's row, in the words of the Open Job Spec; the only place that derives it.
create or replace function asyncq._state(job asyncq._jobs) returns text
  language sql stable parallel safe
  as $$
  select case
    when job.cancelled_at is not null then 'cancelled'
    when job.locked_by is not null then 'active'
    when asyncq._is_discarded(job) then 'discarded'
    when job.due_at is not null then 'pending'
    when asyncq._is_due(job, asyncq.now()) then 'available'
    when job.attempts > 0 then 'retryable'
    else 'scheduled'
  end
  $$;

-- Whether a job is discarded: no attempt is left, and no worker runs it.
create or replace function asyncq._is_discarded(job asyncq._jobs) returns boolean
  language sql immutable parallel safe
  as $$ select job.locked_by is null and job.attempts >= job.max_attempts $$;
