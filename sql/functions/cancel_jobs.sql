-- Cancel jobs, by their ids. What waits, also for a retry, ends as cancelled and is gone. What runs is cancelled for everybody
-- else at once: its key is free, its worker is told, and whatever its run comes to, it is not tried again; its row and its queue
-- stay until the handler has ended. What has failed for good and what is not there is left alone.
-- Returns the rows of the jobs that were cancelled, as they were; those that run have locked_by. A job that somebody is taking,
-- changing or settling at this moment is waited for, and judged as it is then; at REPEATABLE READ and SERIALIZABLE the caller
-- gets 40001 if its snapshot is older.

create or replace function asyncq.cancel_jobs(job_ids bigint[]) returns setof asyncq.jobs
  language plpgsql strict volatile
  set plan_cache_mode = force_generic_plan
  set enable_seqscan = off
  as $$
declare
  waiting bigint[];
  running bigint[];
begin
  perform from asyncq._jobs as job where job.id = any(job_ids) order by job.id for no key update;
  -- A statement of its own: it sees what was waited for.
  select array_agg(job.id) filter (where job.locked_by is null), array_agg(job.id) filter (where job.locked_by is not null)
    into waiting, running
    from asyncq._jobs as job
    where job.id = any(job_ids) and (job.locked_by is not null or job.attempts < job.max_attempts);
  return query
    select jobs.* from asyncq.jobs where jobs.id = any(waiting || running) order by jobs.id;
  if running is not null then
    perform asyncq._cancel_running(running);
  end if;
  if waiting is not null then
    perform asyncq._end_jobs(waiting, 'cancelled');
  end if;
end
$$;
