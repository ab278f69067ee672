-- Add the job of a recurring item now, paused or not; no slot is used up. Returns the job that stands for it: with an overlap other
-- than allow, or a unique policy of its task, it may have been there before. One that its task's policy rejects is the error GWBDJ,
-- whose detail is the id and state of the other job as JSON. GWBCN: there is no such item.

create or replace function asyncq.run_cron_item(identifier text) returns asyncq.jobs
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
declare
  done record;
  job asyncq.jobs;
begin
  select added.* into strict done from asyncq._run_cron_item(identifier) as added;
  if done.outcome = 'rejected' then
    raise exception using errcode = 'GWBDJ', column = 'unique',
      message = 'job ' || done.existing_id || ', which is ' || done.existing_state || ', bars another one like it',
      detail = json_build_object('id', done.existing_id, 'state', done.existing_state);
  end if;
  select shown.* into job from asyncq._shown_jobs as shown where shown.id = done.id;
  -- One that has ended, and bars others still, is in no row.
  job.id := done.id;
  return job;
end
$$;
