-- Gate and check: pass the gates of the keys, then lock the jobs that hold them, so that none starts, ends or is rescued
-- before the act. Each is a statement of its own: what was waited for is seen by the next. The holders are locked whatever
-- the mode: one that merely looks would drop a request for a job that is being taken, or has just ended.
-- Returns what the act has to heed: 'doubled' keys in the call, jobs that have 'held' the keys, or neither ('free').

create or replace function asyncq._hold_keys(job_keys text[]) returns text
  language plpgsql volatile
  as $$
declare
  passed bigint;
begin
  passed := asyncq._gate(array(select 'key:' || given from unnest(job_keys) as given where given is not null));
  perform from asyncq._jobs as job where job.key = any(job_keys) order by job.id + 0 for no key update;
  return case
    when passed < cardinality(array_remove(job_keys, null)) then 'doubled'
    when found then 'held'
    else 'free'
  end;
end
$$;
