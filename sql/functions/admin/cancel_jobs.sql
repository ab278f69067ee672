-- Cancel jobs, by their ids. A waiting job ends as cancelled and is gone. Of a running job the key is free at once, and
-- the worker is notified. It is not tried again, whatever its result. Its row and its queue stay until the handler has
-- ended. Discarded and unknown jobs are left alone. Locks and waits as _administer_jobs.
-- Returns the rows of the cancelled jobs, as they were; running ones have locked_by.
create or replace function asyncq.cancel_jobs(job_ids bigint[]) returns setof asyncq.jobs
  language sql volatile
  set search_path = pg_catalog, pg_temp
  as $$ select (done.shown).* from asyncq._administer_jobs('cancel', job_ids) as done $$;

-- End jobs as completed, by their ids: those that wait or are discarded. Running jobs are left alone.
-- Returns the rows of the jobs that ended, as they were, in the order of their ids.
create or replace function asyncq.complete_jobs(job_ids bigint[]) returns setof asyncq.jobs
  language sql volatile
  set search_path = pg_catalog, pg_temp
  as $$ select (done.shown).* from asyncq._administer_jobs('complete', job_ids) as done $$;

-- Discard jobs, by their ids: no attempt is left, and last_error is the message, or 'Manually marked as failed' for
-- null. They keep their keys; an add of such a key makes a new job. Running jobs are left alone.
-- Returns the rows of these jobs as they are now, in the order of their ids.
create or replace function asyncq.permanently_fail_jobs(job_ids bigint[], error_message text default null)
  returns setof asyncq.jobs
  language sql volatile
  set search_path = pg_catalog, pg_temp
  as $$ select (done.shown).* from asyncq._administer_jobs('discard', job_ids, error_message) as done $$;

-- Change when jobs run, by their ids. Null leaves a field as it is, 0 is a value. attempts are failed ones: fewer than
-- max_attempts revive a discarded job, others discard it. Running jobs are left alone.
-- Returns the rows of the jobs that were changed, as they are now, in the order of their ids.
create or replace function asyncq.reschedule_jobs(
  job_ids bigint[], run_at timestamptz default null, priority int default null, attempts int default null,
  max_attempts int default null)
  returns setof asyncq.jobs
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
begin
  perform asyncq._check_changes(run_at, priority, attempts, max_attempts);
  return query
    select (done.shown).*
    from asyncq._administer_jobs('reschedule', job_ids, null, run_at, priority, attempts, max_attempts) as done;
end
$$;

-- Refuse values of a reschedule that are out of range; null is not checked.
create or replace function asyncq._check_changes(run_at timestamptz, priority int, attempts int, max_attempts int) returns void
  language plpgsql stable
  as $$
begin
  perform asyncq._check_jobs(array[asyncq._new_job(
    'reschedule_jobs', null, null, run_at, null, max_attempts, priority => priority)]);
  if attempts not between 0 and 32767 then
    raise exception using errcode = '22003', column = 'attempts',
      message = 'attempts is ' || attempts || ', expected 0 to 32767';
  end if;
end
$$;

-- Let jobs that have failed, discarded or not, start over, by their ids: attempts are 0, due now. last_error stays
-- until the next failure. Running jobs, and jobs that never failed, are left alone.
-- Returns the rows of the jobs that will be tried again, as they are now, in the order of their ids.
create or replace function asyncq.retry_jobs(job_ids bigint[]) returns setof asyncq.jobs
  language sql volatile
  set search_path = pg_catalog, pg_temp
  as $$ select (done.shown).* from asyncq._administer_jobs('retry', job_ids) as done $$;
