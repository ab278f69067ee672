-- Let jobs that were asked for again while they ran, and whose rows the caller has locked, begin anew: now, with the payload
-- that was asked for last, as if they had never run. Their claims end by that; queues are the caller's to free.

create or replace function asyncq._rerun_jobs(ids bigint[]) returns void
  language plpgsql volatile
  as $$
begin
  update asyncq._jobs as job
    set payload = job.rerun, rerun = null, attempts = 0, attempts_made = null, interruptions = 0, last_error = null,
      run_at = asyncq.now(), updated_at = asyncq.now(), revision = job.revision + 1,
      locked_by = null, locked_at = null, lock_token = null
    where job.id = any(ids);
  if found then
    perform asyncq._wake_workers();
  end if;
end
$$;
