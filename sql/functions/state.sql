-- The state of a job's row, in the words of the Open Job Spec; the only place that derives it.

create or replace function asyncq._state(job asyncq._jobs) returns text
  language sql stable parallel safe
  as $$
  select case
    when job.cancelled_at is not null then 'cancelled'
    when job.locked_by is not null then 'active'
    when job.attempts >= job.max_attempts then 'discarded'
    when job.attempts > 0 and job.run_at > asyncq.now() then 'retryable'
    when job.run_at > asyncq.now() then 'scheduled'
    else 'available'
  end
  $$;
