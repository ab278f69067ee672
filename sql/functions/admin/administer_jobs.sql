-- The acts of an administrator on jobs, by their ids. The rows are locked first, in the order of their ids, also of
-- running jobs. So the function waits for a job that is being fetched, settled or changed, and uses its newest version.
-- At REPEATABLE READ and SERIALIZABLE the caller gets 40001. Only cancel changes running jobs. Unknown ids are skipped.
--
--   act          what becomes of the job
--   cancel       unless it is discarded: it ends as cancelled; one that runs is marked, and its worker notified
--   complete     it ends as completed
--   discard      discarded: no attempt is left, last_error says why
--   remove       it is deleted, with its failed attempts
--   reschedule   arguments that are not null are set
--   retry        if an attempt has failed: attempts are 0, and it is due now; last_error stays until the next failure
--
-- A pending job keeps waiting for other jobs: reschedule sets the time that it gets then.
-- With a filter (see find_jobs) a job that does not match it any more, once it is locked, is left alone.
create or replace function asyncq._administer_jobs(
  act text, job_ids bigint[], error_message text default null, run_at timestamptz default null, priority int default null,
  attempts int default null, max_attempts int default null, filter jsonb default null)
  returns table (shown asyncq.jobs, document text)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set plan_cache_mode = force_generic_plan
  set enable_seqscan = off
  as $$
#variable_conflict use_column
declare
  moment constant timestamptz := asyncq.now();
  locked bigint[];
  held bigint[];
begin
  -- A discarded job that may be tried again needs its key lock: an add that has the key lock has not locked discarded
  -- jobs. The key of a job never changes into another one.
  if act = 'retry' or act = 'reschedule' and (attempts is not null or max_attempts is not null) then
    perform asyncq._lock_keys(array(
      select 'unique:' || encode(job.unique_key, 'hex') from asyncq._jobs as job
      where job.id = any(job_ids) and job.unique_key is not null));
  end if;
  if act = 'cancel' then
    locked := asyncq._lock_jobs(job_ids);
  else
    -- The other acts leave running jobs alone, and need their rows only if the snapshot is older.
    if current_setting('transaction_isolation') <> 'read committed' then
      perform asyncq._split_batches_of_jobs(job_ids);
    end if;
    locked := array(select job.id from asyncq._jobs as job where job.id = any(job_ids) order by job.id for no key update);
  end if;
  -- Only rows that are locked: a job of a batch may have become a row since, which another transaction may be changing.
  held := array(
    select job.id from asyncq._jobs as job
    where job.id = any(locked) and case act
      when 'cancel' then not asyncq._is_discarded(job)
      when 'retry' then job.locked_by is null and job.attempts > 0
      else job.locked_by is null
    end);
  if filter is not null then
    execute format('select array(select job.id from asyncq._jobs as job where job.id = any($1) and %s)', asyncq._condition(filter))
      into held using held;
  end if;
  if act in ('cancel', 'complete', 'remove') then
    return query select touched.shown, touched.document from asyncq._shown(held) as touched;
  end if;
  case act
  when 'cancel' then
    perform asyncq._cancel_running(held);
    perform asyncq._end_jobs(
      array(select job.id from asyncq._jobs as job where job.id = any(held) and job.locked_by is null), 'cancelled');
  when 'complete' then
    perform asyncq._end_jobs(
      held, 'completed', faults => array_fill('it was completed by hand, without a run'::text, array[cardinality(held)]));
  when 'remove' then
    delete from asyncq._attempts where job_id = any(held);
    perform asyncq._end_jobs(
      array(select job.id from asyncq._jobs as job where job.id = any(held) and asyncq._is_discarded(job)), 'discarded');
    perform asyncq._end_jobs(
      array(select job.id from asyncq._jobs as job where job.id = any(held)), 'cancelled');
  when 'discard' then
    update asyncq._jobs as job
      set attempts = job.max_attempts, attempts_made = coalesce(job.attempts_made, job.attempts),
        last_error = coalesce(error_message, 'Manually marked as failed'), updated_at = moment
      where job.id = any(held);
  when 'reschedule' then
    update asyncq._jobs as job
      set run_at = case when job.due_at is null then coalesce(_administer_jobs.run_at, job.run_at) else job.run_at end,
        due_at = case when job.due_at is not null then coalesce(_administer_jobs.run_at, job.due_at) end, priority = coalesce(_administer_jobs.priority, job.priority),
        attempts = coalesce(_administer_jobs.attempts, job.attempts),
        max_attempts = coalesce(_administer_jobs.max_attempts, job.max_attempts),
        attempts_made = case when coalesce(_administer_jobs.attempts, _administer_jobs.max_attempts) is null
          then job.attempts_made end,
        -- More attempts need more time.
        deadline_at = case when coalesce(_administer_jobs.attempts, _administer_jobs.max_attempts) is null
          then job.deadline_at end,
        updated_at = moment
      where job.id = any(held);
  when 'retry' then
    update asyncq._jobs as job
      set run_at = case when job.due_at is null then moment else job.run_at end, attempts = 0, attempts_made = null, interruptions = 0, expires_at = null, deadline_at = null,
        updated_at = moment
      where job.id = any(held);
  end case;
  if act in ('discard', 'reschedule') then
    perform asyncq._tell_discarded(held);
    perform asyncq._note_discarded(held);
  end if;
  perform asyncq._wake_partitions(held);
  -- All of them: fetches have skipped a job that was locked here and not changed.
  perform asyncq._wake_for(job_ids);
  if act not in ('cancel', 'complete', 'remove') then
    return query select touched.shown, touched.document from asyncq._shown(held) as touched;
  end if;
end
$$;
