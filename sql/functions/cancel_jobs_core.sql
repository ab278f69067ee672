-- The act of cancel_jobs.

create or replace function asyncq._cancel_jobs(job_ids bigint[]) returns table (shown asyncq.jobs, document text)
  language plpgsql volatile
  set plan_cache_mode = force_generic_plan
  set enable_seqscan = off
  as $$
#variable_conflict use_column
declare
  waiting bigint[];
  running bigint[];
begin
  perform from asyncq._jobs as job where job.id = any(job_ids) order by job.id for no key update;
  -- A statement of its own: it sees what was waited for.
  select array_agg(job.id) filter (where job.locked_by is null), array_agg(job.id) filter (where job.locked_by is not null)
    into waiting, running
    from asyncq._jobs as job
    where job.id = any(job_ids) and not asyncq._has_failed(job);
  return query select touched.shown, touched.document from asyncq._shown(waiting || running) as touched;
  if running is not null then
    perform asyncq._cancel_running(running);
  end if;
  if waiting is not null then
    perform asyncq._end_jobs(waiting, 'cancelled');
  end if;
end
$$;
