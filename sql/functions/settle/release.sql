-- End the claims of jobs whose rows the caller has locked, and wake their partitions. Every end of a claim calls this,
-- except the good ends of settle_completed, claim_next and _complete_claim.
--
--   the job                              what becomes of it                                     ending
--   was cancelled                        it ends as cancelled                                   cancelled
--   has a rerun                          it runs again                                          rerun
--   has an end, such as 'completed'      it ends in this state, and is kept if requested        written if completed,
--                                                                                              else the end
--   any other                            it waits, with the values below                        written
--
-- The other arrays have one element for each id; a missing array or element leaves the column as it is. attempts are
-- added; delays_s count from now, or from run_at if that is later. Null ids are skipped. A kind says that the
-- attempt has failed and is recorded in _attempts, unless the job ends or runs again; its run took durations_s. It
-- waits for no other transaction.
-- results are the return values of handlers as JSON, for jobs that end as completed. Without one, the error may say
-- why. payloads are JSON texts: the items of a job that are left to do. The watchers of ended and discarded jobs are
-- notified, and jobs that wait for them are looked at after the commit.
create or replace function asyncq._release(
  ids bigint[], ends text[] default null, attempts int[] default null, delays_s float8[] default null, errors text[] default null,
  interruptions int[] default null, kinds text[] default null, durations_s float8[] default null,
  results text[] default null, payloads text[] default null)
  returns table (id bigint, ending text)
  language plpgsql volatile
  as $$
#variable_conflict use_column
declare
  limited bigint[];
  partitions bigint[];
  task_ids int[];
  cancelled bigint[];
  reruns bigint[];
  watched bigint[];
  awaited bigint[];
  ended bigint[];
  end_states text[];
begin
  select array_agg(job.id) filter (where job.partition is not null),
      array_agg(job.partition) filter (where job.partition is not null),
      array_agg(job.task_id) filter (where job.partition is not null),
      array_agg(job.id) filter (where job.cancelled_at is not null),
      array_agg(job.id) filter (where job.cancelled_at is null and job.rerun is not null),
      array_agg(job.id) filter (where job.extras ? 'watchers'),
      array_agg(job.id) filter (where job.keep_until is not null)
    into limited, partitions, task_ids, cancelled, reruns, watched, awaited
    from asyncq._jobs as job where job.id = any(ids);
  -- First: a row that was cancelled or is to run again cannot be stored without a claim.
  if cancelled is not null then
    perform asyncq._end_jobs(array_agg(given.id), 'cancelled', null, array_agg(given.duration_s))
      from unnest(ids, durations_s) as given(id, duration_s) where given.id = any(cancelled);
  end if;
  if reruns is not null then
    -- No payload is left of a job that completed. The items of any other run are still to do, before the new ones.
    update asyncq._jobs as job
      set rerun = asyncq._joined_arrays(coalesce(given.payload::json, job.payload), job.rerun)
      from unnest(ids, ends, payloads) as given(id, end_state, payload)
      where job.id = any(array[given.id]) and job.id = any(reruns) and given.end_state is distinct from 'completed'
        and json_typeof(job.payload) = 'array' and json_typeof(job.rerun) = 'array';
    perform asyncq._rerun_jobs(reruns);
  end if;
  select array_agg(job.id), array_agg(given.end_state) into ended, end_states
    from unnest(ids, ends) as given(id, end_state) join asyncq._jobs as job on job.id = any(array[given.id])
    where given.end_state is not null and job.locked_by is not null;
  perform asyncq._end_jobs(
      array_agg(given.id), given.end_state, array_agg(given.result), array_agg(given.duration_s), array_agg(given.error))
    from unnest(ids, ends, results, durations_s, errors) as given(id, end_state, result, duration_s, error)
    where given.id = any(ended) group by given.end_state;
  return query
    select unnest(cancelled), 'cancelled' union all select unnest(reruns), 'rerun'
    union all
    select given.id, case given.end_state when 'completed' then 'written' else given.end_state end
    from unnest(ended, end_states) as given(id, end_state);
  -- All others wait. Mostly there are none: a job that a client awaits has completed.
  if exists (
    select from unnest(ids) as given(id)
    where given.id is not null and (given.id = any(cancelled || reruns || ended)) is not true)
  then
    -- While the rows still have their claims. Only workers that are unlocked by force leave no error. An id of a job
    -- is used twice if its sequence was not copied to another server: a row that is left of it must not stop the
    -- settlement. An error in an envelope could not be opened after a cut; the worker has cut it before. Its first word
    -- is the name of the package, in two parts here, because it is not the name of the schema.
    insert into asyncq._attempts (job_id, lock_token, started_at, ended_at, worker_id, number, kind, error)
      select job.id, job.lock_token, coalesce(asyncq.now() - make_interval(secs => given.duration_s), job.locked_at), asyncq.now(),
        job.locked_by, coalesce(job.attempts_made, job.attempts) + 1, given.kind,
        case when length(given.error) > 4000 and not starts_with(given.error, 'async' || 'q:1:')
          then left(given.error, 1980) || E'\n... cut ...\n' || right(given.error, 1980)
          else coalesce(given.error, 'WorkerLost: worker ' || job.locked_by || ' was unlocked by force') end
      from unnest(ids, kinds, durations_s, errors) as given(id, kind, duration_s, error)
      join asyncq._jobs as job on job.id = any(array[given.id])
      where given.kind is not null and job.locked_by is not null
      on conflict do nothing;
    return query
      update asyncq._jobs as job
      set locked_by = null, locked_at = null, lock_token = null, updated_at = asyncq.now(),
        -- If the attempts were used up meanwhile (the key was given to a newer request), the job stays discarded.
        attempts = least(job.attempts + coalesce(given.attempts, 0), greatest(job.attempts, job.max_attempts)),
        -- A discarded job gets all attempts at once, but has made only one more.
        attempts_made = case when job.attempts_made is not null or given.attempts > 1
          then coalesce(job.attempts_made, job.attempts) + least(coalesce(given.attempts, 0), 1) end,
        run_at = coalesce(greatest(job.run_at, asyncq.now()) + make_interval(secs => given.delay_s), job.run_at),
        last_error = coalesce(given.error, job.last_error),
        payload = coalesce(given.payload::json, job.payload),
        -- A run began: a returned claim has neither.
        expires_at = case when coalesce(given.attempts, 0) = 0 and given.interruptions is null then job.expires_at end,
        interruptions = coalesce(given.interruptions, job.interruptions)
      from unnest(ids, _release.attempts, delays_s, errors, _release.interruptions, payloads)
        as given(id, attempts, delay_s, error, interruptions, payload)
      -- One probe for each claim, whatever the planner expects of the arrays. Jobs that run again have no claim.
      where job.id = any(array[given.id]) and job.locked_by is not null
      returning job.id, 'written';
    if watched is not null then
      perform asyncq._tell_discarded(watched);
    end if;
    if awaited is not null then
      perform asyncq._note_discarded(awaited);
    end if;
  end if;
  if limited is not null then
    perform asyncq._wake_partitions(limited);
    perform asyncq._wake_ended(partitions, task_ids);
  end if;
end
$$;

-- Let jobs run again that were requested again while they ran. The caller has locked their rows. They are due now, with
-- the last requested payload, as if they had never run. This ends their claims; the caller wakes their partitions.
create or replace function asyncq._rerun_jobs(ids bigint[]) returns void
  language plpgsql volatile
  as $$
begin
  update asyncq._jobs as job
    set payload = job.rerun, rerun = null, attempts = 0, attempts_made = null, interruptions = 0, last_error = null,
      expires_at = null, deadline_at = null, run_at = asyncq.now(), updated_at = asyncq.now(), revision = job.revision + 1,
      locked_by = null, locked_at = null, lock_token = null
    where job.id = any(ids);
  if found then
    -- They were done for the payload before.
    delete from asyncq._steps where job_id = any(ids);
    perform asyncq._wake_workers();
  end if;
end
$$;

-- Two JSON arrays as one; it never fails, since a settlement must not. As jsonb a number may be too large.
create or replace function asyncq._joined_arrays(first json, second json) returns json
  language sql immutable parallel safe
  as $$
    select array_to_json(
      array(select item from json_array_elements(first) as item) || array(select item from json_array_elements(second) as item))
  $$;
