-- Let a new job, which is pending, wait for others, whose rows the caller has locked. Their ends are left to
-- _settle_rest from now on, by keep_until; a worker that claims one knows that by its extras. Their rows are written in
-- any case: a settlement with an older snapshot does not see the edges, and finds by this that the row is not the one
-- that it knows. A job that has ended has no edge: how it ended is left to a look. Of an unknown one nobody can say how
-- it ended.
create or replace function asyncq._add_waits(waiter bigint, awaited bigint[]) returns void
  language plpgsql volatile
  as $$
declare
  open bigint[];
  discarded bigint[];
  ended bigint[];
  states text[];
  unknown bigint;
begin
  with marked as (
    update asyncq._jobs as job
      set keep_until = coalesce(job.keep_until, '-infinity'), extras = coalesce(job.extras, '{}') || '{"awaited": true}'
      where job.id = any(awaited) and job.id <> waiter
      returning job.id, asyncq._is_discarded(job) as is_discarded)
  select coalesce(array_agg(marked.id), '{}'), array_agg(marked.id) filter (where marked.is_discarded)
    into open, discarded from marked;
  select array_agg(job.id), array_agg(job.state) into ended, states
    from asyncq._ended_jobs as job where job.id = any(awaited);
  -- By hashes: with `<> all` each id would be compared with each.
  unknown := (
    select min(given.id) from (
      select unnest(awaited) except select unnest(open) except select unnest(ended)) as given(id));
  if unknown is not null then
    raise exception using errcode = 'GWBAF', column = 'after',
      message = 'after names job ' || unknown || ', of which nothing is known: it never was, or it has ended and was not kept; '
        || 'add both jobs in one transaction, or add job ' || unknown || ' with keep';
  end if;
  insert into asyncq._waits (waiter, job_id) select _add_waits.waiter, given.id from unnest(open) as given(id);
  perform asyncq._leave_closings(array_agg(_add_waits.waiter), array_agg(line.job_id), array_agg(line.state))
    from (
      select given.id as job_id, 'failed' as state from unnest(discarded) as given(id)
      union all
      select given.id, given.state from unnest(ended, states) as given(id, state)
      where given.state <> 'completed' or open = '{}') as line;
  -- Fetches have skipped jobs that were locked here.
  perform asyncq._wake_for(open);
end
$$;

-- Lock the jobs that new jobs name in `after`, and others, in the order of their ids, until the end of the transaction.
-- So it waits for a job that is being settled at this moment, and none of them ends before the edges are there. As in
-- _administer_jobs, a fetch for which the lock waited may have moved jobs into a batch.
create or replace function asyncq._lock_awaited(jobs asyncq._new_job[], others bigint[]) returns void
  language plpgsql volatile
  as $$
declare
  awaited constant bigint[] := array(
    select distinct given.id from unnest(jobs) as job cross join unnest(job.after) as given(id));
  locked bigint[];
  before bigint[];
begin
  loop
    perform asyncq._split_batches_of_jobs(awaited);
    before := locked;
    locked := array(
      select job.id from asyncq._jobs as job where job.id = any(awaited || others) order by job.id + 0 for no key update);
    exit when cardinality(locked) = cardinality(awaited || others) or locked = before;
  end loop;
end
$$;
