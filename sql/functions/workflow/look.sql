-- Look at the waiters of jobs that have ended. This is a transaction of its own after that of the end, at READ
-- COMMITTED. It waits for nobody: a waiter whose row another transaction locks keeps its closings.
--
--   the waiter                                    what becomes of it                       outcome
--   has no edge any more                          it is released: due at its real time     released
--   the same, but the results that it takes are
--     larger than a payload may be                it is discarded                          refused
--   waits for a job that did not complete, and
--     if_failed is run                            that job counts like a completed one
--     if_failed is cancel                         it ends as cancelled                     cancelled
--     if_failed is wait, the job has ended        it ends as cancelled                     cancelled
--     if_failed is wait, the job can be retried   it stays pending                         blocked
--   has edges of which all are being cut          its closings stay: look again            held
--   has an edge of a job that has ended, which
--     another transaction locks                   its closings stay: look again            held
--   is locked by another transaction              its closings stay: look again            held
--   has an edge that nobody cuts                  it stays pending: that end looks again
--   is not pending any more                       nothing
--
-- Two looks beside each other may read the same closings. The lock of the waiter's row and its due_at decide: one of
-- them releases it.
--
-- It looks at the waiters of the first `most` closings after an id, by all their closings: a call locks few waiters,
-- and none for long. Returns a row for each outcome; job_id is the discarded job of a blocked one. With the outcome
-- next, the waiter is the id after which there may be more closings: others, or those of waiters that were cancelled
-- or discarded here.
create or replace function asyncq._look(after_id bigint, most int)
  returns table (outcome text, waiter bigint, job_id bigint)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set plan_cache_mode = force_generic_plan
  set enable_seqscan = off
  set enable_bitmapscan = off
  set enable_sort = on
  as $$
#variable_conflict use_column
declare
  last_id bigint;
  is_full boolean;
  taken bigint[];
  waiters bigint[];
  locked bigint[];
  bare bigint[];
  doomed bigint[];
  free bigint[];
  stuck bigint[];
  busy bigint[];
  refused bigint[];
begin
  select array_agg(distinct line.waiter), max(line.id), count(*) = most into waiters, last_id, is_full
    from (select id, waiter from asyncq._closings where id > after_id order by id limit most) as line;
  if waiters is null then
    return;
  end if;
  locked := array(
    select job.id from asyncq._jobs as job
    where job.id = any(waiters) and job.due_at is not null order by job.id for update skip locked);
  taken := array(select line.id from asyncq._closings as line where line.waiter = any(waiters));
  -- What an end could not cut, and what counts although it did not complete.
  delete from asyncq._waits where ctid = any(array(
    select edge.ctid
    from asyncq._judged(taken) as line
    join asyncq._waits as edge on edge.waiter = line.waiter and edge.job_id = line.job_id
    where line.verdict = 'counts' and line.waiter = any(locked)
    for update of edge skip locked));
  bare := array(
    select given.id from unnest(locked) as given(id)
    where not exists (select from asyncq._waits as edge where edge.waiter = given.id offset 0));
  -- Again, after the edges: an end that has cut one since then has left its closing too.
  taken := array(select line.id from asyncq._closings as line where line.waiter = any(waiters));
  stuck := array(
    select edge.waiter from asyncq._judged(taken) as line
    join asyncq._waits as edge on edge.waiter = line.waiter and edge.job_id = line.job_id
    where line.verdict = 'counts');
  doomed := array(
    select distinct line.waiter from asyncq._judged(taken) as line where line.verdict = 'cancels' and line.waiter = any(locked));
  perform asyncq._end_jobs(doomed, 'cancelled');
  free := array(select given.id from unnest(bare) as given(id) where given.id <> all(doomed));
  refused := asyncq._release_waiters(free);
  busy := array(
    select given.id from unnest(waiters) as given(id)
    where given.id <> all(doomed || free)
      and exists (select from asyncq._jobs as job where job.id = given.id and job.due_at is not null offset 0)
      and (given.id <> all(locked) or given.id = any(stuck) or not asyncq._has_open_wait(given.id)));
  return query
    select case when given.id = any(refused) then 'refused' else 'released' end, given.id, null::bigint
    from unnest(free) as given(id)
    union all
    select 'cancelled', given.id, null from unnest(doomed) as given(id)
    union all
    select 'held', given.id, null from unnest(busy) as given(id)
    union all
    select 'blocked', line.waiter, line.job_id from asyncq._judged(taken) as line
    where line.verdict = 'blocks' and line.waiter <> all(busy);
  perform asyncq._drop_waits(array(
    select given.id from unnest(waiters) as given(id)
    where given.id <> all(locked || busy)));
  delete from asyncq._closings where id = any(array(
    select line.id from asyncq._closings as line
    where line.id = any(taken) and line.waiter <> all(busy) order by line.id for update skip locked));
  if is_full or doomed <> '{}' or refused <> '{}' then
    return query select 'next', last_id, null::bigint;
  end if;
end
$$;

-- Whether a job waits for something that no other transaction is about to cut. If all its edges were touched, one that
-- can be locked is open: its cut was undone, or it was only locked. An end that skips it meanwhile leaves a closing.
create or replace function asyncq._has_open_wait(of_waiter bigint) returns boolean
  language plpgsql volatile
  as $$
begin
  if asyncq._has_untouched_wait(of_waiter) then
    return true;
  end if;
  perform from asyncq._waits as edge where edge.waiter between of_waiter and of_waiter
    order by edge.waiter desc, edge.job_id desc limit 1 for update skip locked;
  return found;
end
$$;

-- The meaning of closings for their waiters, by the table of _look: counts, cancels or blocks. A job that failed, and
-- has been retried or has ended since, means nothing: its end leaves closings of its own.
create or replace function asyncq._judged(ids bigint[]) returns table (waiter bigint, job_id bigint, verdict text)
  language sql volatile
  as $$
  select line.waiter, line.job_id, case
      when line.state = 'completed' or waiting.extras ->> 'if_failed' = 'run' then 'counts'
      when line.state <> 'failed' or waiting.extras ->> 'if_failed' = 'cancel' then 'cancels'
      else 'blocks'
    end
  from asyncq._closings as line
  join asyncq._jobs as waiting on waiting.id = any(array[line.waiter]) and waiting.due_at is not null
  where line.id = any(ids) and (line.state <> 'failed' or exists (
    select from asyncq._jobs as failed where failed.id = line.job_id and asyncq._is_discarded(failed) offset 0))
  $$;

-- Let waiters start at their real times, whose rows the caller has locked. One that takes results gets them as its
-- payload, or is discarded if they are larger than a payload may be. Returns the ids of those.
create or replace function asyncq._release_waiters(ids bigint[]) returns bigint[]
  language plpgsql volatile
  as $$
declare
  too_large bigint[] := '{}';
  taking bigint[];
begin
  taking := array(select job.id from asyncq._jobs as job where job.id = any(ids) and job.extras ? 'takes');
  if taking <> '{}' then
    too_large := array(
      select input.waiter from asyncq._inputs as input where input.waiter = any(taking)
      -- With commas, and the place of a result that is missing.
      group by input.waiter having sum(input.size + 8) > 16777216);
    update asyncq._jobs as job set payload = asyncq._with_inputs(job) where job.id = any(taking) and job.id <> all(too_large);
    update asyncq._jobs as job
      set attempts = job.max_attempts, attempts_made = 0, last_error = 'InputsRefused: the results of the jobs that it waited for '
        || 'are larger together than a payload may be, 16777216 bytes'
      where job.id = any(too_large);
    delete from asyncq._inputs as input where input.waiter = any(taking);
  end if;
  update asyncq._jobs as job
    set run_at = greatest(job.due_at, asyncq.now()), due_at = null,
      extras = nullif(job.extras - '{if_failed,takes,takes_as,inputs}'::text[], '{}'), updated_at = asyncq.now()
    where job.id = any(ids) and job.due_at is not null;
  if found then
    perform asyncq._wake_partitions(ids);
    perform asyncq._wake_for(ids);
  end if;
  if too_large <> '{}' then
    perform asyncq._tell_discarded(too_large);
    perform asyncq._note_discarded(too_large);
  end if;
  return too_large;
end
$$;
