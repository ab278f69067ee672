-- Cancel jobs, by their ids. What waits, also for a retry, ends as cancelled and is gone. What runs is cancelled for everybody
-- else at once: its key is free, its worker is told, and whatever its run comes to, it is not tried again; its row and its queue
-- stay until the handler has ended. What is discarded and what is not there is left alone.
-- Returns the rows of the jobs that were cancelled, as they were; those that run have locked_by. A job that somebody is taking,
-- changing or settling at this moment is waited for, and judged as it is then; at REPEATABLE READ and SERIALIZABLE the caller
-- gets 40001 if its snapshot is older.
create or replace function asyncq.cancel_jobs(job_ids bigint[]) returns setof asyncq.jobs
  language sql volatile
  set search_path = pg_catalog, pg_temp
  as $$ select (done.shown).* from asyncq._administer_jobs('cancel', job_ids) as done $$;

-- End jobs as completed, by their ids: what waits, waits for its retry, or is discarded. What runs is left alone.
-- Returns the rows of the jobs that ended, as they were, in the order of their ids.
create or replace function asyncq.complete_jobs(job_ids bigint[]) returns setof asyncq.jobs
  language sql volatile
  set search_path = pg_catalog, pg_temp
  as $$ select (done.shown).* from asyncq._administer_jobs('complete', job_ids) as done $$;

-- Discard jobs, by their ids: no attempt is left, and last_error is the message, 'Manually marked as failed' if that is
-- null. They keep their keys; an add of such a key makes a new job. What runs is left alone.
-- Returns the rows of these jobs as they are now, in the order of their ids.
create or replace function asyncq.permanently_fail_jobs(job_ids bigint[], error_message text default null)
  returns setof asyncq.jobs
  language sql volatile
  set search_path = pg_catalog, pg_temp
  as $$ select (done.shown).* from asyncq._administer_jobs('discard', job_ids, error_message) as done $$;

-- Change when jobs run, by their ids. Null leaves a field as it is, 0 is a value. attempts are failed ones: fewer than
-- max_attempts revive a discarded job, others end it as one. What runs is left alone.
-- Returns the rows of the jobs that were changed, as they are now, in the order of their ids.
create or replace function asyncq.reschedule_jobs(
  job_ids bigint[], run_at timestamptz default null, priority int default null, attempts int default null,
  max_attempts int default null)
  returns setof asyncq.jobs
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
begin
  perform asyncq._check_jobs(
    array['reschedule_jobs'], array[null::json], array[null::text], array[run_at], array[max_attempts], array[null::text],
    array[priority], array[null::text]);
  if attempts not between 0 and 32767 then
    raise exception using errcode = '22003', column = 'attempts',
      message = 'attempts is ' || attempts || ', expected 0 to 32767';
  end if;
  return query
    select (done.shown).*
    from asyncq._administer_jobs('reschedule', job_ids, null, run_at, priority, attempts, max_attempts) as done;
end
$$;

-- Retry jobs that wait for a retry or are discarded, by their ids: no attempt has failed, due now. last_error stays until
-- the next failure: it says what was wrong. What runs, and what has never failed, is left alone.
-- Returns the rows of the jobs that will be tried again, as they are now, in the order of their ids.
create or replace function asyncq.retry_jobs(job_ids bigint[]) returns setof asyncq.jobs
  language sql volatile
  set search_path = pg_catalog, pg_temp
  as $$ select (done.shown).* from asyncq._administer_jobs('retry', job_ids) as done $$;
